//! `plasm-mcp token`, as people and scripts run it.

use super::issuer::Issuer;
use super::{config, list_as};
use crate::gateway::Gateway;
use serde_json::json;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn token(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
        .arg("token")
        .args(args)
        .env_remove("PLASM_MCP_ADMIN_LISTEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("its stdin is a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[tokio::test]
async fn a_key_is_minted_hashed_used_and_revoked_by_the_command_line() {
    let minted = token(&["mint", "ci"], "");
    assert!(minted.status.success());
    let key = out(&minted).trim().to_owned();
    assert!(key.starts_with("plasm_ci_"), "the key alone is on standard output: {key}");
    let told = String::from_utf8(minted.stderr).expect("text");
    let hashed = token(&["hash"], &format!("{key}\n"));
    let hash = out(&hashed).trim().to_owned();
    assert!(told.contains(&hash) && !told.contains(&key), "{told}");
    let issuer = Issuer::start("EdDSA").await;
    let keys = json!({ "auth": { "api_keys": { "ci": { "hash": hash, "tenant": "acme" } } } });
    let gateway = Gateway::demo(config(&issuer, keys));
    assert_eq!(list_as(&gateway, "/mcp", &key).await.status, 200);
    let admin = format!("http://{}", gateway.admin());
    let revoked = token(&["revoke", "--admin", &admin, &key], "");
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    assert_eq!(list_as(&gateway, "/mcp", &key).await.status, 401);
}

#[test]
fn what_is_no_key_is_neither_hashed_nor_minted() {
    for (args, input) in
        [(&["hash"][..], "secret"), (&["hash"], ""), (&["mint", "A_b"], ""), (&["revoke"], "")]
    {
        assert_eq!(token(args, input).status.code(), Some(2), "{args:?}");
    }
    let nobody = token(&["revoke", "--admin", "127.0.0.1:1", "ci"], "");
    assert_eq!(nobody.status.code(), Some(1));
}
