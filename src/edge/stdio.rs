//! The stdio edge: both eras on one pipe, a message a line. A message whose `_meta` says so is modern; the others are of
//! the session that `initialize` began. Knows no process: whoever has two byte streams can be served.

mod asks;
mod legacy;
mod pipe;
mod run;
mod talk;

use super::gate::{Gate, Mount};
use crate::lifecycle::Lifecycle;
use crate::lines::{Line, Lines};
use crate::wire::{Refused, code};
use std::sync::Arc;
use std::time::Duration;
use talk::Talk;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

/// After the end of the input, calls that are nearly done may still be answered; the others are cancelled.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// How long a reader may take for what was written before the end, and upstreams to hear that a session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves one client until its input ends, until it reads no more, or until the lifecycle says so. What is in flight
/// then is cancelled, and standing streams get their completion.
pub async fn serve(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    lifecycle: &Lifecycle,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) {
    let limit = gate.rules.request_bytes;
    let (pipe, outbound) = pipe::open();
    let mut writing = tokio::spawn(pipe::write(output, outbound));
    let talk = Arc::new(Talk::new(gate, mount, pipe));
    // A line that is too long is skipped to its end, however far that is: the client is one and has no other pipe.
    let mut lines = Lines::new(input, limit, usize::MAX);
    tokio::select! {
        () = read(&talk, &mut lines, limit) => tracing::debug!("the input has ended"),
        _ = &mut writing => tracing::debug!("nobody reads the output"),
        () = lifecycle.draining.cancelled() => {
            // Answers to what upstreams asked still count while the calls in flight finish.
            talk.say_farewell();
            tokio::select! {
                () = talk.settled() => {}
                () = lifecycle.over.cancelled() => {}
                () = read(&talk, &mut lines, limit) => {}
                _ = &mut writing => {}
            }
        }
    }
    end(talk, writing).await;
}

async fn end(talk: Arc<Talk>, writing: JoinHandle<std::io::Result<()>>) {
    talk.say_farewell();
    let _ = tokio::time::timeout(LAST_ANSWERS, talk.settled()).await;
    talk.cancel_all();
    let _ = tokio::time::timeout(FAREWELL, async {
        talk.settled().await;
        talk.end_session().await;
        // The writer ends when the last who may speak is gone.
        drop(talk);
        // Where it ended first, its outcome has been taken.
        if !writing.is_finished() {
            let _ = writing.await;
        }
    })
    .await;
}

async fn read(talk: &Arc<Talk>, lines: &mut Lines<impl AsyncRead + Unpin>, limit: usize) {
    loop {
        match lines.next().await {
            Ok(Some(Line::Text(text))) if text.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(Line::Text(text))) => talk.take(text).await,
            Ok(Some(Line::TooLong { .. })) => {
                let why = format!("a message of more than {limit} bytes");
                talk.refuse(&Refused { id: None, code: code::INVALID_REQUEST, why }).await;
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the input cannot be read");
                return;
            }
        }
        // A client that floods us must not keep the thread to itself.
        tokio::task::consume_budget().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::scripted::Scripted;
    use crate::mcp::{Ask, Backend, Call, Event, Outcome, Reply, UpstreamId};
    use crate::wire::{Method, Raw};
    use futures_util::{FutureExt, StreamExt, stream};
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
    use tokio::sync::oneshot;

    struct Client {
        to: WriteHalf<DuplexStream>,
        from: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
        over: JoinHandle<()>,
    }

    impl Client {
        fn of(backend: Arc<dyn Backend>) -> Client {
            let lifecycle = Lifecycle::default();
            let store = Arc::new(crate::store::Memory::new(1 << 20));
            let (gate, _) = crate::house::gate(&Default::default(), false, &lifecycle, store).unwrap();
            let gate = Arc::new(gate);
            let mount = Arc::new(Mount { name: "".into(), backend, door: Default::default() });
            let (ours, theirs) = tokio::io::duplex(4096);
            let (input, output) = tokio::io::split(theirs);
            let over = tokio::spawn(async move { serve(gate, mount, &lifecycle, input, output).await });
            let (from, to) = tokio::io::split(ours);
            Client { to, from: BufReader::new(from).lines(), over }
        }

        async fn say(&mut self, message: Value) {
            self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }

        async fn hear(&mut self) -> Value {
            let line = tokio::time::timeout(Duration::from_secs(10), self.from.next_line()).await;
            serde_json::from_str(&line.expect("it answers").unwrap().expect("it is not over")).unwrap()
        }

        async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
            let params = json!({"protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"}});
            self.say(json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params})).await;
            let answer = self.hear().await;
            self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            answer
        }

        async fn call(&mut self, id: Value, name: &str) {
            let params = json!({"name": name, "arguments": {}});
            self.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        }
    }

    /// `ask` asks for roots and gives the answer back; `hang` never answers; everything else answers at once.
    fn tools(call: &Call) -> Reply {
        match call.params.name().as_deref() {
            Some("ask") => {
                let (answer, answered) = oneshot::channel();
                let upstream = UpstreamId::new("up").unwrap();
                let ask = Event::Ask(Ask {
                    upstream,
                    method: Method::RootsList,
                    params: Raw::trusted("{}"),
                    answer,
                });
                let done = stream::once(async move {
                    Event::Done(match answered.await {
                        Ok(Ok(result)) => Outcome::Result(result),
                        Ok(Err(fault)) => Outcome::Error(fault),
                        Err(_) => Outcome::Result(Raw::trusted(r#"{"refused":true}"#)),
                    })
                });
                Reply::Stream(stream::iter([ask]).chain(done).boxed())
            }
            Some("hang") => Reply::Stream(std::future::pending().into_stream().boxed()),
            Some("large") => Reply::result(Raw::of(&json!({"text": "x".repeat(1 << 20)}))),
            _ => Reply::result(Raw::trusted("{}")),
        }
    }

    fn backend() -> Arc<Scripted> {
        Arc::new(Scripted::new("up").0.answering(tools))
    }

    #[tokio::test]
    async fn what_an_upstream_asks_reaches_a_client_that_answers_such_and_its_answer_goes_back() {
        let mut client = Client::of(backend());
        client.initialize("2025-11-25", json!({"roots": {}})).await;
        client.call(json!(1), "ask").await;
        let asked = client.hear().await;
        assert_eq!(asked["method"], "roots/list");
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [1]}})).await;
        assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": [1]}}));
        // The same answer again is to nothing, and disturbs nothing.
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}})).await;
        client.call(json!(2), "ask").await;
        let asked = client.hear().await;
        client
            .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))
            .await;
        let void = client.hear().await;
        assert_eq!(
            (&void["method"], &void["params"]["requestId"]),
            (&json!("notifications/cancelled"), &asked["id"])
        );
    }

    #[tokio::test]
    async fn an_ask_is_refused_at_once_where_the_client_takes_none_or_is_modern() {
        let mut client = Client::of(backend());
        client.initialize("2025-11-25", json!({})).await;
        client.call(json!(1), "ask").await;
        assert_eq!(client.hear().await["result"], json!({"refused": true}));
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": "ask", "arguments": {}, "_meta": meta});
        client.say(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).await;
        let refused = client.hear().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32021)));
    }

    #[tokio::test]
    async fn b127_a_cancel_stops_the_call_of_exactly_that_id_without_an_answer() {
        let mut client = Client::of(backend());
        client.initialize("2025-11-25", json!({})).await;
        for id in [json!(7), json!("7")] {
            client.call(id, "hang").await;
        }
        client
            .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}}))
            .await;
        client.call(json!("after"), "echo").await;
        assert_eq!(client.hear().await["id"], "after");
        // The input ends: the other one is cancelled, and nothing more is said.
        client.to.shutdown().await.unwrap();
        assert_eq!(client.from.next_line().await.unwrap(), None);
        client.over.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_holds_up_its_own_messages_and_loses_none() {
        let mut client = Client::of(backend());
        client.initialize("2025-11-25", json!({})).await;
        for n in 0..32 {
            client.call(json!(n), "large").await;
        }
        client.call(json!("last"), "echo").await;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..33 {
            seen.insert(client.hear().await["id"].to_string());
        }
        assert_eq!(seen.len(), 33);
    }

    #[tokio::test]
    async fn batches_are_answered_as_one_in_the_version_that_has_them_and_refused_in_the_others() {
        let mut client = Client::of(backend());
        client.initialize("2025-03-26", json!({})).await;
        let ping = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        client
            .say(json!([ping(json!(1)), {"jsonrpc": "2.0", "method": "x"}, ping(json!("1")), {"id": 3}]))
            .await;
        let answers = client.hear().await;
        let mut ids: Vec<String> = answers.as_array().unwrap().iter().map(|a| a["id"].to_string()).collect();
        ids.sort();
        assert_eq!(ids, ["\"1\"", "1", "3"]);
        client.initialize("2025-06-18", json!({})).await;
        client.say(json!([ping(json!(1))])).await;
        let refused = client.hear().await;
        assert_eq!((refused.get("id"), &refused["error"]["code"]), (None, &json!(-32600)));
    }

    #[tokio::test]
    async fn changes_reach_a_legacy_client_from_initialized_on_and_uris_once_subscribed() {
        let (backend, mut opened) = Scripted::new("up");
        let mut client = Client::of(Arc::new(backend.answering(tools)));
        client.initialize("2025-11-25", json!({})).await;
        let first = opened.recv().await.unwrap();
        first.acknowledge("{}").await;
        first.note(Method::ToolsChanged, "{}").await;
        assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
        let params = json!({"uri": "file:///a"});
        client
            .say(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params}))
            .await;
        let second = opened.recv().await.unwrap();
        assert!(second.params.contains("file:///a"), "{}", second.params);
        // What is heard now comes before the answer, for that waits until the subscription is listened for.
        first.note(Method::ToolsChanged, "{}").await;
        assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
        second.acknowledge("{}").await;
        assert_eq!(client.hear().await["id"], 1);
        second.note(Method::ResourceUpdated, r#"{"uri":"file:///a"}"#).await;
        let updated = client.hear().await;
        assert_eq!(
            (&updated["method"], &updated["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("file:///a"))
        );
        assert!(first.say.is_closed());
    }

    #[tokio::test]
    async fn a_client_that_reads_no_more_ends_it_in_order() {
        let lifecycle = Lifecycle::default();
        let store = Arc::new(crate::store::Memory::new(1 << 20));
        let (gate, _) = crate::house::gate(&Default::default(), false, &lifecycle, store).unwrap();
        let mount = Arc::new(Mount { name: "".into(), backend: backend(), door: Default::default() });
        let (mut to, input) = tokio::io::duplex(4096);
        let (output, from) = tokio::io::duplex(4096);
        drop(from);
        let over = tokio::spawn(async move { serve(Arc::new(gate), mount, &lifecycle, input, output).await });
        to.write_all(b"{}\n").await.unwrap();
        over.await.expect("nothing panics");
    }

    #[tokio::test]
    async fn a_modern_subscription_bears_its_id_and_ends_with_the_input_by_a_completion_and_a_cancel() {
        let (backend, mut opened) = Scripted::new("up");
        let mut client = Client::of(Arc::new(backend));
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        client
            .say(json!({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}))
            .await;
        let stream = opened.recv().await.unwrap();
        stream.acknowledge(r#"{"toolsListChanged":true}"#).await;
        stream.note(Method::ToolsChanged, "{}").await;
        for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
            let note = client.hear().await;
            let id = &note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            assert_eq!((&note["method"], id), (&json!(method), &json!(5)));
        }
        client.to.shutdown().await.unwrap();
        let end = client.hear().await;
        assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(5), &json!("complete")));
        assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
        let cancel = client.hear().await;
        assert_eq!(
            (&cancel["method"], &cancel["params"]["requestId"]),
            (&json!("notifications/cancelled"), &json!(5))
        );
    }
}
