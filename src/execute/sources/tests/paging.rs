//! Every page style, and sources that lead in circles or elsewhere.

use super::*;

/// Five rows, two a page.
async fn read_all(
    pages: &str,
    says: impl Fn(usize, &Seen) -> Says + Send + Sync + 'static,
) -> (Vec<Vec<i64>>, Server) {
    let server = Server::start(says).await;
    let catalog = catalog(&server.base(), "", &format!("{LIST}, pages: {pages}}}\n"));
    let pages = all(&sources(), ask(&catalog, "list", json!({}), json!({})), 10).await.unwrap();
    (ids(&pages), server)
}

fn of(seen: &Seen, name: &str) -> usize {
    seen.parameter(name).map_or(0, |text| text.parse().unwrap())
}

#[tokio::test]
async fn pages_by_number_end_with_the_first_that_is_not_full() {
    let (got, server) =
        read_all("{style: page, page: page, start: 1, size: 2, size_param: per_page}", |_, seen| {
            json!({"items": rows((of(seen, "page") - 1) * of(seen, "per_page"), 2, 5)}).into()
        })
        .await;
    assert_eq!(got, [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(server.targets()[2], "/things?page=3&per_page=2");
}

#[tokio::test]
async fn pages_by_offset_end_where_the_source_says_so() {
    let (got, server) =
        read_all("{style: offset, offset: skip, limit: take, size: 2, more: $.next}", |_, seen| {
            let skip = of(seen, "skip");
            json!({"items": rows(skip, of(seen, "take"), 4), "next": (skip < 2).then_some("…")}).into()
        })
        .await;
    assert_eq!((got, server.seen().len()), (vec![vec![0, 1], vec![2, 3]], 2));
}

#[tokio::test]
async fn a_cursor_is_taken_from_each_answer_and_sent_with_the_next_request() {
    let (got, server) =
        read_all("{style: cursor, send: after, take: $.next_cursor, size: 2, size_param: n}", |n, _| {
            json!({"items": rows(n * 2, 2, 5), "next_cursor": (n < 2).then(|| format!("c/{n}&"))}).into()
        })
        .await;
    assert_eq!(got, [vec![0, 1], vec![2, 3], vec![4]]);
    let cursors: Vec<_> = server.seen().iter().map(|seen| seen.parameter("after")).collect();
    assert_eq!(cursors, [None, Some("c/0&".to_owned()), Some("c/1&".to_owned())]);
}

#[tokio::test]
async fn the_link_header_and_a_url_in_the_answer_lead_on() {
    let (got, server) = read_all("{style: link, size: 2, size_param: n}", |n, _| {
        let link = format!(
            "link: </first>; rel=\"first\", </things?n=2&p={}>; title=\"a, b\"; rel=\"next\"\r\n",
            n + 1
        );
        let body = json!({"items": rows(n * 2, 2, 5)}).to_string();
        answer("200 OK", if n < 2 { &link } else { "" }, &body)
    })
    .await;
    assert_eq!(got, [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(server.targets(), ["/things?n=2", "/things?n=2&p=1", "/things?n=2&p=2"]);
    let (got, _) = read_all("{style: next_url, take: $.next}", |n, _| {
        json!({"items": rows(n * 2, 2, 5), "next": (n < 2).then(|| format!("/things?p={}", n + 1))}).into()
    })
    .await;
    assert_eq!(got, [vec![0, 1], vec![2, 3], vec![4]]);
}

#[tokio::test]
async fn a_relay_connection_is_read_to_its_end() {
    let server = Server::start(|n, _| {
        let info = json!({"hasNextPage": n < 2, "endCursor": format!("c{n}")});
        json!({"data": {"things": {"nodes": rows(n * 2, 2, 5), "pageInfo": info}}}).into()
    })
    .await;
    let text = format!(
        "catalog: graph\nrevision: 1\ntitle: G\nsource: {{kind: graphql, url: '{}/graphql'}}\nentities:\n  Thing: {{key: [id], \
         fields: {{id: string}}}}\noperations:\n  list: {{kind: query, entity: Thing, args: {{state: string}}, graphql: \
         {{document: 'query', variables: {{state: args.state}}, rows: $.data.things.nodes.*}}, pages: {{style: relay, after: \
         after, first: first, size: 2, info: $.data.things.pageInfo}}}}\n",
        server.base()
    );
    let catalog = catalog::read(&text, Path::new("graph.yaml")).unwrap().catalog;
    let pages =
        all(&sources(), ask(&catalog, "list", json!({}), json!({"state": "open"})), 10).await.unwrap();
    assert_eq!(ids(&pages), [vec![0, 1], vec![2, 3], vec![4]]);
    let last: Json = serde_json::from_str(&server.seen()[2].body).unwrap();
    assert_eq!(last["variables"], json!({"state": "open", "first": 2, "after": "c1"}));
}

#[tokio::test]
async fn a_smaller_page_is_asked_for_where_the_source_takes_a_size_and_stays_so() {
    let server =
        Server::start(|_, seen| json!({"items": rows(of(seen, "skip"), of(seen, "take"), 5)}).into()).await;
    let catalog = catalog(
        &server.base(),
        "",
        &format!("{LIST}, pages: {{style: offset, offset: skip, limit: take, size: 3}}}}\n"),
    );
    let first = Ask { page_size: Some(1), ..ask(&catalog, "list", json!({}), json!({})) };
    let got = sources().ask(first.clone()).await.unwrap();
    // Whoever goes on asks for another size, which does not move the pages.
    let then = sources().ask(Ask { page: got.next, page_size: Some(9), ..first }).await.unwrap();
    assert_eq!(ids(&[got.rows, then.rows]), [vec![0], vec![1]]);
    let more = Ask { page_size: Some(9), ..ask(&catalog, "list", json!({}), json!({})) };
    assert_eq!(sources().ask(more).await.unwrap().rows.len(), 3);
}

#[tokio::test]
async fn a_circle_of_cursors_is_left_after_few_rounds() {
    for length in [1, 2, 3, 7] {
        let server = Server::start(move |n, _| {
            json!({"items": rows(n, 1, n + 1), "next_cursor": format!("c{}", n % length)}).into()
        })
        .await;
        let catalog = catalog(
            &server.base(),
            "",
            &format!("{LIST}, pages: {{style: cursor, send: after, take: $.next_cursor}}}}\n"),
        );
        let pages = all(&sources(), ask(&catalog, "list", json!({}), json!({})), 1000).await.unwrap();
        assert!(pages.len() <= 3 * length + 3, "a circle of {length} was left after {} pages", pages.len());
    }
}

#[tokio::test]
async fn a_next_page_on_another_host_or_port_is_refused() {
    let stranger = Server::start(|_, _| json!({"items": []}).into()).await;
    for next in
        [format!("{}/things", stranger.base()), "https://127.0.0.1/x".into(), "file:///etc/passwd".into()]
    {
        let server = Server::start(move |_, _| json!({"items": [], "next": next}).into()).await;
        let catalog =
            catalog(&server.base(), "", &format!("{LIST}, pages: {{style: next_url, take: $.next}}}}\n"));
        let error = sources().ask(ask(&catalog, "list", json!({}), json!({}))).await.unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::Shape, "{error}");
    }
    assert!(stranger.seen().is_empty());
}

#[tokio::test]
async fn a_made_up_page_leads_nowhere() {
    let server = Server::start(|_, _| json!({"items": []}).into()).await;
    let catalog =
        catalog(&server.base(), "", &format!("{LIST}, pages: {{style: next_url, take: $.next}}}}\n"));
    for page in [
        "",
        "7",
        r#"{"at":{"url":"http://127.0.0.2/x"},"n":1,"mark":""}"#,
        r#"{"at":{"number":3},"n":1,"mark":""}"#,
    ] {
        let page = Some(PageRef(page.to_owned()));
        assert!(sources().ask(Ask { page, ..ask(&catalog, "list", json!({}), json!({})) }).await.is_err());
    }
    assert!(server.seen().is_empty());
}
