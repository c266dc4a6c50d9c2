//! How an API is logged in to, as its document says it: one scheme becomes the source's `auth`, with the names of secrets.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{
    super::sheet::{Sheet, map, some},
    document::{Called, Document},
};

/// The source's `auth`, if it has any, and what of security it does not say. `api`: what the secret's name begins with.
pub(super) fn auth(
    document: Document<'_>,
    operations: &[Called<'_>],
    api: &str,
    notes: &mut Vec<String>,
) -> Option<Sheet> {
    let schemes = document.0["components"]["securitySchemes"].as_object();
    let of_all = document.0.get("security");
    // What most operations want, where nothing is said of all of them.
    let wanted =
        alternatives(of_all).or_else(|| operations.iter().find_map(|one| alternatives(one.security)));
    let alternatives = match wanted {
        Some(wanted) => wanted,
        // Many documents describe a login and forget to ask for it.
        None if of_all.is_none() => {
            schemes.into_iter().flatten().map(|(name, _)| vec![(name.as_str(), Vec::new())]).collect()
        }
        None => Vec::new(),
    };
    let mut chosen = None;
    for alternative in &alternatives {
        let [(name, _)] = alternative.as_slice() else {
            let names: Vec<&str> = alternative.iter().map(|(name, _)| *name).collect();
            notes.push(format!("auth: {} together are left out, a source bears one", names.join(" and ")));
            continue;
        };
        let Some(scheme) = schemes.and_then(|schemes| schemes.get(*name)) else {
            notes.push(format!("auth: {name} is not among the securitySchemes"));
            continue;
        };
        let every = [of_all].into_iter().chain(operations.iter().map(|one| one.security));
        let every = every.filter_map(self::alternatives).flatten().flatten();
        let scopes: BTreeSet<&str> =
            every.filter(|(have, _)| have == name).flat_map(|(_, scopes)| scopes).collect();
        let scopes: Vec<&str> = scopes.into_iter().collect();
        match (scheme_of(document.at(scheme), &scopes, api), &chosen) {
            (Ok((sheet, note)), None) => {
                notes.extend(note.map(|note| format!("auth: {note}")));
                chosen = Some((*name, sheet));
            }
            (Ok(_), Some((first, _))) => {
                notes.push(format!("auth: {name} would do in place of {first}"));
            }
            (Err(why), _) => notes.push(format!("auth: {name} is left out, {why}")),
        }
    }
    let by = chosen.as_ref().map(|(name, _)| *name);
    for one in operations {
        let other = self::alternatives(one.security).filter(|all| {
            !all.iter()
                .any(|one| one.is_empty() || matches!(one.as_slice(), [(name, _)] if Some(*name) == by))
        });
        if let Some(other) = other {
            let names: Vec<&str> = other.iter().flatten().map(|(name, _)| *name).collect();
            let have = by.unwrap_or("nothing");
            notes.push(format!(
                "{}: it wants {}, and the source bears {have}",
                one.line(),
                names.join(" or ")
            ));
        }
    }
    chosen.map(|(_, sheet)| sheet)
}

type Alternative<'a> = Vec<(&'a str, Vec<&'a str>)>;

/// The alternatives of a security requirement, each scheme with its scopes. `None`: nothing is wanted, or nothing said.
fn alternatives(security: Option<&Json>) -> Option<Vec<Alternative<'_>>> {
    let all: Vec<Alternative<'_>> = security?
        .as_array()?
        .iter()
        .filter_map(Json::as_object)
        .map(|one| {
            one.iter()
                .map(|(name, of)| {
                    let scopes = of.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
                    (name.as_str(), scopes)
                })
                .collect()
        })
        .collect();
    (all.iter().any(|one| !one.is_empty())).then_some(all)
}

/// `Err`: why it cannot be borne. With the sheet: what a person has to fill in.
fn scheme_of(scheme: &Json, scopes: &[&str], api: &str) -> Result<(Sheet, Option<String>), String> {
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let secret = |what: &str| -> Sheet { format!("{api}_{what}").into() };
    let of = |scheme: &str, rest: Vec<(&'static str, Option<Sheet>)>| {
        some([("scheme", Some(scheme.into()))].into_iter().chain(rest))
    };
    let wanted = |all: &[&str]| (!all.is_empty()).then(|| Json::from(all.to_vec()).into());
    match scheme["type"].as_str() {
        Some("http") => match scheme["scheme"].as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("bearer") => Ok((of("bearer", vec![("secret", Some(secret("token")))]), None)),
            Some("basic") => {
                let sheet = map([
                    ("scheme", "basic".into()),
                    ("user", "user".into()),
                    ("secret", secret("password")),
                ]);
                Ok((sheet, Some("put the user's name in source.auth.user".to_owned())))
            }
            other => Err(format!("the scheme {} is not known", other.unwrap_or("without a name"))),
        },
        Some("apiKey") => {
            let name = text(&scheme["name"]).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| "its key has no name".to_owned())?;
            let scheme = match scheme["in"].as_str() {
                Some(place @ ("header" | "query")) => place,
                _ => return Err("no cookies are sent".to_owned()),
            };
            Ok((of(scheme, vec![("name", Some(name.into())), ("secret", Some(secret("key")))]), None))
        }
        Some("oauth2") => {
            let flows = &scheme["flows"];
            let machine = &flows["clientCredentials"];
            match (machine["tokenUrl"].as_str(), flows.as_object().is_some_and(|flows| flows.len() == 1)) {
                (Some(url), true) => {
                    let parts = vec![
                        ("token_url", Some(url.into())),
                        ("client_id", Some("client".into())),
                        ("secret", Some(secret("client_secret"))),
                        ("scopes", wanted(scopes)),
                    ];
                    let note = "put the client's id in source.auth.client_id".to_owned();
                    Ok((of("client_credentials", parts), Some(note)))
                }
                _ => {
                    let parts = vec![("connection", Some(api.into())), ("scopes", wanted(scopes))];
                    let note = format!(
                        "each user's own account: the configuration needs catalogs.connections.{api}"
                    );
                    Ok((of("oauth2", parts), Some(note)))
                }
            }
        }
        Some("openIdConnect") => {
            let note = format!("each user's own account: the configuration needs catalogs.connections.{api}");
            Ok((of("oauth2", vec![("connection", Some(api.into()))]), Some(note)))
        }
        Some("mutualTLS") => Err("certificates of clients are not sent".to_owned()),
        _ => Err("its type is not known".to_owned()),
    }
}
