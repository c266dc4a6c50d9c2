// A person at a headless Chromium: logs in at the provider, reads the consent page, decides; and what they see, kept as
// pictures. No request leaves the machine: what would is answered here.

import { chromium } from 'playwright-core';

/** A browser that is closed by its `close`. `shots`: a folder for pictures, or nothing. */
export async function open(executablePath, shots) {
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
    const context = await browser.newContext();
    await context.route(/^https:/, route => route.fulfill({ status: 200, body: 'a client’s page' }));

    const picture = async (page, name) => {
        if (!shots) return;
        for (const colorScheme of ['light', 'dark']) {
            for (const width of [1000, 500]) {
                await page.emulateMedia({ colorScheme });
                await page.setViewportSize({ width, height: 700 });
                await page.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png`, fullPage: true });
            }
        }
    };

    /** Whether the page shows what is wider than the screen: then it cannot be read on a small one. */
    const fits = page => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

    /**
     * Visits an authorization URL and allows (or not) what is asked; gives the address that the browser is sent to, and what the
     * consent page said. `name`: of the pictures.
     */
    async function visit(url, { decision = 'Allow', name } = {}) {
        const redirect = new URL(url).searchParams.get('redirect_uri');
        const page = await context.newPage();
        try {
            await page.goto(String(url));
            if (await page.locator('#login').count()) await page.click('#login');
            await page.getByRole('button', { name: decision, exact: true }).waitFor();
            const said = await page.locator('main').innerText();
            if (name) await picture(page, name);
            await page.setViewportSize({ width: 500, height: 700 });
            const small = await fits(page);
            const scripts = await page.locator('script').count();
            // An app's address is none that a page can go to: it stands in the link.
            const web = redirect.startsWith('http');
            // To its end: a page that is closed before takes its request with it, and nobody hears the code.
            const back = request => request.isNavigationRequest() && request.url().startsWith(redirect);
            const ended = event => page.waitForEvent(event, { predicate: back });
            const sent = web ? Promise.race([ended('requestfinished'), ended('requestfailed')]) : undefined;
            await page.getByRole('button', { name: decision, exact: true }).click();
            const to = web ? (await sent).url() : await page.getByRole('link').getAttribute('href');
            return { to, said, small, scripts };
        } finally {
            await page.close();
        }
    }

    /** The person's own page, and its end of one client. */
    async function account(origin, { name, revoke } = {}) {
        const page = await context.newPage();
        try {
            await page.goto(`${origin}/account`);
            if (await page.locator('#login').count()) await page.click('#login');
            await page.getByRole('heading', { name: 'Your account' }).waitFor();
            if (name) await picture(page, name);
            const said = await page.locator('main').innerText();
            if (revoke) {
                await page.getByRole('button', { name: `Take access from ${revoke}`, exact: true }).first().click();
                await page.getByRole('heading', { name: 'Your account' }).waitFor();
            }
            return { said, after: await page.locator('main').innerText() };
        } finally {
            await page.close();
        }
    }

    return { visit, account, close: () => browser.close() };
}
