//! What programs say of the rows they bring, in every style of pages: how many requests a limit costs, whether the rows are
//! all there are, and that what follows comes once.

use super::*;

/// Rows that the server has, and those of one page.
const ALL: i64 = 250;
const PAGE: usize = 50;

/// A list that goes on in whichever way it is asked.
fn says(seen: &Seen) -> Says {
    let number = |name: &str| seen.parameter(name).and_then(|text| text.parse::<usize>().ok());
    let whole = seen.target().starts_with("/whole");
    let size = if whole { ALL as usize } else { number("n").unwrap_or(PAGE).min(PAGE) };
    let from = number("offset").or(number("after")).or(number("at"));
    let from = from.or(number("page").map(|page| (page - 1) * size)).unwrap_or(0);
    let items: Vec<Json> =
        (1..=ALL).skip(from).take(size).map(|id| json!({"id": id, "half": id % 2})).collect();
    let end = from + items.len();
    let more = end < ALL as usize;
    let address = format!("http://{}/rows?n={size}&at={end}", seen.header("host").unwrap());
    let (next, url) = if more { (json!(end.to_string()), json!(address)) } else { (Json::Null, Json::Null) };
    let link = if more { format!("Link: <{address}>; rel=\"next\"\r\n") } else { String::new() };
    answer("200 OK", &link, &json!({"items": items, "next": next, "url": url}).to_string())
}

fn bench(server: &Server, path: &str, pages: &str, coverage: &str) -> Bench {
    let text = format!(
        "catalog: rows\nrevision: 1\ntitle: Rows\nsource: {{kind: http, base_url: '{}'}}\nentities:\n  Row: {{key: [id], fields: \
         {{id: int, half: int}}}}\noperations:\n  list:\n    kind: query\n    entity: Row\n    returns: {{coverage: {coverage}}}\n    \
         http: {{send: GET {path}, rows: $.items.*}}\n    pages: {pages}\n",
        server.base()
    );
    Bench::of(catalog::read(&text, Path::new("rows.yaml")).unwrap_or_else(|error| panic!("{error}")))
}

#[tokio::test]
async fn in_every_style_a_limit_stops_the_pages_and_each_row_comes_once() {
    let server = Server::start(|_, seen| says(seen)).await;
    for (path, pages, all, hundred) in [
        // Where the source does not say, a full page is not known to be the last.
        ("/rows", "{style: page, page: page, size: 50, size_param: n}", 6, 2),
        ("/rows", "{style: offset, offset: offset, limit: n, size: 50}", 6, 2),
        ("/rows", "{style: offset, offset: offset, limit: n, size: 50, more: $.next}", 5, 2),
        ("/rows", "{style: cursor, send: after, take: $.next, size: 50, size_param: n}", 5, 2),
        ("/rows", "{style: link, size: 50, size_param: n}", 5, 2),
        ("/rows", "{style: next_url, take: $.url, size: 50, size_param: n}", 5, 2),
        ("/whole", "{style: none}", 1, 1),
    ] {
        let bench = bench(&server, path, pages, "exhaustive");
        for (stages, requests, rows, coverage) in [
            ("", all, ALL, Covered::Complete),
            (" | limit(100)", hundred, 100, Covered::Partial),
            (" | filter(half = 1) | limit(50)", hundred, 50, Covered::Partial),
            (" | filter(half = 1) | limit(1000)", all, 125, Covered::Complete),
        ] {
            let before = server.seen().len();
            let ran = bench.run(&format!("Row{stages}")).await;
            let brought = tables(&ran)[0].as_array().unwrap().len() as i64;
            let said =
                (server.seen().len() - before, brought, ran.roots[0].coverage, ran.roots[0].next.is_some());
            assert_eq!(said, (requests, rows, coverage, coverage == Covered::Partial), "{pages}{stages}");
        }
        for limit in [70, 50, 7] {
            let parts = parts(&bench, &format!("Row | limit({limit})[id]")).await;
            let rows: Vec<i64> = parts.iter().flat_map(|(rows, _)| rows.clone()).collect();
            let most = if limit == 7 { rows.len() as i64 } else { ALL };
            assert_eq!(rows, (1..=most).collect::<Vec<_>>(), "{pages} | limit({limit})");
            assert!(most >= 7 * 20, "{pages}");
        }
    }
}

#[tokio::test]
async fn a_source_that_leaves_rows_out_is_never_said_to_be_complete() {
    let server = Server::start(|_, seen| says(seen)).await;
    let pages = "{style: cursor, send: after, take: $.next, size: 50, size_param: n}";
    for (coverage, covered) in [("unknown", Covered::Unknown), ("partial", Covered::Partial)] {
        let bench = bench(&server, "/rows", pages, coverage);
        let ran = bench.run("Row").await;
        assert_eq!((ran.roots[0].coverage, ran.roots[0].next.clone()), (covered, None));
        // The end of the pages is known all the same, and that of a limit is not it.
        assert_eq!(bench.run("Row | limit(50)").await.roots[0].coverage, Covered::Partial);
    }
    let partial = bench(&server, "/rows", pages, "partial");
    let (code, said) = partial.fault("Row | group_by(half, n = count())").await;
    assert_eq!(code, "partial_coverage", "{said}");
    let ran = partial.run("Row | limit(100) | group_by(half, n = count())").await;
    assert_eq!(tables(&ran), [json!([[1, 50], [0, 50]])]);
}
