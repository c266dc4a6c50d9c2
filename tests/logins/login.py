"""The official Python client logs in and calls: login.py modern|legacy URL VISIT

VISIT: an address that has a person visit `?url=…`, and answers where their browser was sent.
"""

import sys
import urllib.parse
import urllib.request

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

era, url, visit = sys.argv[1:]
REDIRECT = "http://localhost:3030/callback"


class Kept:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main():
    sent = {}

    async def redirect(to):
        def ask():
            return urllib.request.urlopen(visit + "?url=" + urllib.parse.quote(to, safe="")).read().decode()

        sent.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(await anyio.to_thread.run_sync(ask)).query))

    async def callback():
        return AuthorizationCodeResult(code=sent["code"], state=sent.get("state"), iss=sent.get("iss"))

    metadata = OAuthClientMetadata(
        client_name=f"Python {era}",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    kept = Kept()
    auth = OAuthClientProvider(url, metadata, kept, redirect, callback)
    async with httpx2.AsyncClient(auth=auth, timeout=30, follow_redirects=True) as http:
        mode = "legacy" if era == "legacy" else "2026-07-28"
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert tools, "there are tools"
            await client.call_tool(tools[0].name, {"text": "ü", "a": 1, "b": 2, "message": "ü"})
    assert kept.tokens.refresh_token, "there is a refresh token"


anyio.run(main)
