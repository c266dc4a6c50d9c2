//! The configuration described: its JSON Schema for editors, and a table of all keys for people.

use schemars::generate::SchemaSettings;
use serde_json::{Value as Json, json};

use super::{
    Config,
    check::{type_of, words},
    environment::leaves,
};

/// The JSON Schema of the configuration file, without references. `x-min` and `x-max` bound durations and sizes.
pub fn schema() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    // `mcpServers` is another way to write `upstreams`, so `Config` has no field for it.
    let mut server = schema["properties"]["upstreams"]["additionalProperties"].clone();
    let text = json!({ "type": "string" });
    let spellings = [
        ("type", &text),
        ("serverUrl", &text),
        ("httpUrl", &text),
        ("disabled", &json!({ "type": "boolean" })),
    ];
    for (key, spelling) in spellings {
        server["properties"][key] = spelling.clone();
    }
    schema["properties"]["mcpServers"] = json!({
        "description": "Upstreams as Cursor, Claude and VS Code write them; they come after `upstreams`, under ids made of their names.",
        "type": "object",
        "default": {},
        "additionalProperties": server,
    });
    schema
}

/// A Markdown table of every key: kind, default, bounds, variable, meaning.
pub fn reference() -> String {
    let schema = schema();
    let variables: Vec<(String, String)> =
        leaves(&schema).iter().map(|leaf| (leaf.path.join("."), leaf.variable())).collect();
    let mut table =
        String::from("| Key | Kind | Default | Bounds | Meaning |\n| --- | --- | --- | --- | --- |\n");
    rows(&schema, "", &mut |path, property| {
        let variable = variables
            .iter()
            .find(|(of, _)| of == path)
            .map_or_else(String::new, |(_, variable)| format!("<br>`{variable}`"));
        let meaning =
            property["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        table.push_str(&format!(
            "| `{path}`{variable} | {} | {} | {} | {meaning} |\n",
            kind(property),
            default(property),
            bounds(property)
        ));
    });
    table
}

/// Calls back for every key in the order of the schema, maps' own keys as `<id>` or `<name>`.
fn rows(schema: &Json, above: &str, row: &mut impl FnMut(&str, &Json)) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        row(&path, property);
        match key.as_str() {
            "mcpServers" => {}
            "upstreams" => rows(&property["additionalProperties"], &format!("{path}.<id>"), row),
            "overrides" => rows(&property["additionalProperties"], &format!("{path}.<tool>"), row),
            _ if property["additionalProperties"]["properties"].is_object() => {
                rows(&property["additionalProperties"], &format!("{path}.<name>"), row);
            }
            _ if type_of(property) == "array" => rows(&property["items"], &format!("{path}[]"), row),
            _ => rows(property, &path, row),
        }
    }
}

fn kind(property: &Json) -> String {
    match property["x-format"].as_str() {
        Some("duration") => return "duration".to_owned(),
        Some("size") => return "size".to_owned(),
        Some("secret") => return "secret".to_owned(),
        Some("json") => return "any value".to_owned(),
        _ => {}
    }
    let words = words(property);
    match type_of(property) {
        "object" => "map".to_owned(),
        "array" if property["items"]["x-format"] == "secret-ref" => "list of secrets".to_owned(),
        "array" if type_of(&property["items"]) == "object" => "list of maps".to_owned(),
        "array" => "list of text".to_owned(),
        "integer" | "number" => "number".to_owned(),
        "boolean" => "true, false".to_owned(),
        _ if words.is_empty() => "text".to_owned(),
        _ => words.join(", "),
    }
}

fn default(property: &Json) -> String {
    match &property["default"] {
        Json::String(text) => format!("`{text}`"),
        Json::Number(number) => format!("`{number}`"),
        Json::Bool(value) => format!("`{value}`"),
        Json::Array(items) if items.is_empty() => "empty".to_owned(),
        _ => "–".to_owned(),
    }
}

fn bounds(property: &Json) -> String {
    let bound = |words: &str, number: &str| match (&property[words], &property[number]) {
        (Json::String(text), _) => Some(text.clone()),
        (_, Json::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    match (bound("x-min", "minimum"), bound("x-max", "maximum")) {
        (Some(least), Some(most)) => format!("{least} – {most}"),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- the table of `plasm-mcp config schema --table` -->\n";

    #[test]
    fn the_documentation_holds_the_table_of_every_key() {
        let page = include_str!("../../docs/configuration.md");
        let (_, table) = page.split_once(BEGIN).expect("docs/configuration.md marks where the table begins");
        assert_eq!(
            table,
            reference(),
            "put the output of `plasm-mcp config schema --table` at the page's end"
        );
    }

    #[test]
    fn every_setting_outside_the_maps_has_a_default_and_every_number_bounds() {
        let optional = [
            "public_url",
            "public_path",
            "internal_listen",
            "internal_address",
            "store.redis_url",
            "outbound.proxy",
            "admin_token",
            "policy.webhook.url",
            "policy.webhook.token",
            "telemetry.endpoint",
            "auth.login.oidc.issuer",
            "auth.login.oidc.client_secret",
            "auth.login.oidc.tenant_claim",
            "artifacts.store",
            "artifacts.endpoint",
            "artifacts.region",
            "artifacts.account",
            "artifacts.access_key",
            "artifacts.secret_key",
            "artifacts.client_user_agent",
        ];
        for leaf in leaves(&schema()) {
            let path = leaf.path.join(".");
            assert!(
                leaf.schema.get("default").is_some()
                    || optional.contains(&&*path)
                    || path.starts_with("rates.")
                    || path.split('.').any(|key| key == "tls"),
                "{path} has no default"
            );
            let counts = type_of(leaf.schema) == "integer"
                || matches!(kind(leaf.schema).as_str(), "duration" | "size");
            assert!(!counts || bounds(leaf.schema) != "–", "{path} has no bounds");
        }
    }

    #[test]
    fn every_key_says_what_it_means() {
        rows(&schema(), "", &mut |path, property| {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 3), "{path}");
        });
    }

    #[test]
    fn no_two_settings_share_a_variable() {
        let schema = schema();
        let mut variables: Vec<String> = leaves(&schema).iter().map(|leaf| leaf.variable()).collect();
        let all = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), all);
    }
}
