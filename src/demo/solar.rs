//! Planets, moons and missions: the data of the demonstration, the tools that hand it out, and the catalog that types them.
//! Observations are kept in memory, each caller's for themselves. Knows no catalogs: its own is text here.

use crate::mcp::{Caller, Reply};
use crate::wire::Raw;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The catalog of these tools, as a file of catalogs has it.
pub const CATALOG: &str = include_str!("solar.yaml");

/// Rows of one page at most.
const PAGE: usize = 20;
/// Observations that are kept, of one caller and of all: the oldest give way.
const MOST_OF_ONE: usize = 100;
const MOST: usize = 1_000;
/// Longest note, in characters.
const LONGEST: usize = 280;

pub(super) struct Solar {
    planets: Vec<Value>,
    moons: Vec<Value>,
    missions: Vec<Value>,
    observations: Mutex<Observations>,
}

#[derive(Default)]
struct Observations {
    /// With whose they are, the oldest first.
    kept: VecDeque<(String, Value)>,
    /// How many were ever noted down.
    noted: u64,
}

impl Default for Solar {
    fn default() -> Solar {
        let mut data: Value =
            serde_json::from_str(include_str!("solar.json")).expect("the data of the demonstration is JSON");
        let mut rows = |name: &str| match data[name].take() {
            Value::Array(rows) => rows,
            _ => Vec::new(),
        };
        Solar {
            planets: rows("planets"),
            moons: rows("moons"),
            missions: rows("missions"),
            observations: Mutex::default(),
        }
    }
}

/// The tools, as they are listed.
pub(super) fn tools() -> Vec<Value> {
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    let known = json!({"type": ["string", "null"]});
    let counted = json!({"type": ["number", "null"]});
    let date = json!({"type": "string", "format": "date"});
    let class = json!({"type": "string", "enum": ["planet", "dwarf"]});
    let craft = json!({"type": "string", "enum": ["flyby", "orbiter", "lander", "rover"]});
    let agency = json!({"type": "string", "enum": ["NASA", "ESA", "JAXA", "ISRO", "CNSA", "USSR", "UAE"]});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": PAGE});
    let moment = json!({"type": "string", "format": "date-time"});
    let note = json!({"type": "string", "maxLength": LONGEST});
    let planet = object(json!({
        "name": text, "kind": class, "made_of": {"type": "string", "enum": ["rock", "gas", "ice"]},
        "radius_km": number, "year_days": number, "distance_au": number, "fact": text,
    }));
    let moon = object(json!({
        "name": text, "planet": text, "radius_km": counted, "period_days": number, "discovered": counted, "discoverer": known,
    }));
    let mission = object(json!({
        "name": text, "agency": agency, "kind": craft, "launched": date, "ended": known,
        "targets": {"type": "array", "items": text},
    }));
    let observation = object(json!({"id": text, "planet": text, "seen_at": moment, "note": note}));
    let many = |name: &str, of: &Value| object(json!({name: {"type": "array", "items": of}}));
    let paged = |name: &str, of: &Value| object(json!({name: {"type": "array", "items": of}, "next": known}));
    let one = |name: &str, of: &Value| object(json!({name: {"anyOf": [of, {"type": "null"}]}}));
    let named = || (json!({"name": text}), vec!["name"]);
    let by_page = |more: Value| (with(more, json!({"cursor": text, "limit": limit})), Vec::new());
    vec![
        read(
            "planets",
            "Planets",
            "The planets and dwarf planets, from the Sun outwards.",
            (json!({"kind": class}), Vec::new()),
            many("planets", &planet),
        ),
        read("planet", "A planet", "One planet by its name, or null.", named(), one("planet", &planet)),
        read(
            "moons",
            "Moons",
            "Moons of a planet, or of all; in pages.",
            by_page(json!({"planet": text})),
            paged("moons", &moon),
        ),
        read("moon", "A moon", "One moon by its name, or null.", named(), one("moon", &moon)),
        read(
            "missions",
            "Missions",
            "Space missions to planets by their launch, the first first; in pages.",
            by_page(json!({"target": text, "agency": agency, "kind": craft, "launched_since": date})),
            paged("missions", &mission),
        ),
        read("mission", "A mission", "One mission by its name, or null.", named(), one("mission", &mission)),
        read(
            "observations",
            "Observations",
            "What you have noted down of a planet, or of all.",
            (json!({"planet": text}), Vec::new()),
            many("observations", &observation),
        ),
        json!({
            "name": "observe",
            "title": "Note an observation",
            "description": "Notes down what you saw of a planet. It is kept in memory until the gateway ends.",
            "inputSchema": taken(json!({"planet": text, "seen_at": moment, "note": note}), vec!["planet", "seen_at", "note"]),
            "outputSchema": object(json!({"observation": observation})),
            "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false},
        }),
    ]
}

/// A tool that only reads.
fn read(name: &str, title: &str, about: &str, (takes, needs): (Value, Vec<&str>), gives: Value) -> Value {
    json!({
        "name": name,
        "title": title,
        "description": about,
        "inputSchema": taken(takes, needs),
        "outputSchema": gives,
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
    })
}

/// An object that has all these.
fn object(properties: Value) -> Value {
    let required: Vec<String> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// Arguments, of which some must be given.
fn taken(properties: Value, needs: Vec<&str>) -> Value {
    match needs.is_empty() {
        true => json!({"type": "object", "properties": properties}),
        false => json!({"type": "object", "properties": properties, "required": needs}),
    }
}

fn with(mut properties: Value, more: Value) -> Value {
    if let (Some(to), Value::Object(more)) = (properties.as_object_mut(), more) {
        to.extend(more);
    }
    properties
}

impl Solar {
    /// What one of these tools answers; `None`: it is none of them.
    pub(super) fn tool(&self, caller: &Caller, name: &str, given: &Value) -> Option<Reply> {
        let text = |key: &str| given[key].as_str();
        let is =
            |row: &Value, key: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| row[key] == wanted);
        let same = |row: &Value, key: &str, wanted: &str| {
            row[key].as_str().is_some_and(|have| have.eq_ignore_ascii_case(wanted))
        };
        let one = |rows: &[Value], key: &str| match text("name") {
            Some(wanted) => {
                let row = rows.iter().find(|row| same(row, "name", wanted)).cloned().unwrap_or_default();
                structured(json!({ key: row }))
            }
            None => super::wrong(&format!("{name} needs a string \"name\"")),
        };
        Some(match name {
            "planets" => {
                let rows = self.planets.iter().filter(|row| is(row, "kind", text("kind")));
                structured(json!({"planets": rows.collect::<Vec<_>>()}))
            }
            "planet" => one(&self.planets, "planet"),
            "moons" => {
                paged(given, "moons", self.moons.iter().filter(|row| is(row, "planet", text("planet"))))
            }
            "moon" => one(&self.moons, "moon"),
            "missions" => {
                let goes = |row: &Value, to: &str| {
                    row["targets"].as_array().into_iter().flatten().any(|target| target == to)
                };
                let rows = self.missions.iter().filter(|row| {
                    is(row, "agency", text("agency"))
                        && is(row, "kind", text("kind"))
                        && text("target").is_none_or(|target| goes(row, target))
                        // Days are written so that they compare as text.
                        && text("launched_since").is_none_or(|day| row["launched"].as_str() >= Some(day))
                });
                paged(given, "missions", rows)
            }
            "mission" => one(&self.missions, "mission"),
            "observations" => {
                let whose = caller.principal().identity();
                let observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
                let mine = observations.kept.iter().filter(|(of, _)| *of == whose).map(|(_, row)| row);
                let rows = mine.filter(|row| is(row, "planet", text("planet")));
                structured(json!({"observations": rows.collect::<Vec<_>>()}))
            }
            "observe" => self.observe(caller, given),
            _ => return None,
        })
    }

    fn observe(&self, caller: &Caller, given: &Value) -> Reply {
        let text = |key: &str| given[key].as_str();
        let (Some(planet), Some(seen_at), Some(note)) = (text("planet"), text("seen_at"), text("note"))
        else {
            return super::wrong("observe needs the strings \"planet\", \"seen_at\" and \"note\"");
        };
        if !self.planets.iter().any(|row| row["name"] == planet) {
            return super::wrong(&format!("there is no planet {planet}; planets lists them"));
        }
        if note.chars().count() > LONGEST || seen_at.len() > 40 {
            return super::wrong(&format!(
                "a note has at most {LONGEST} characters, and seen_at is an instant"
            ));
        }
        let whose = caller.principal().identity();
        let mut observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
        observations.noted += 1;
        let id = format!("o{}", observations.noted);
        let row = json!({"id": id, "planet": planet, "seen_at": seen_at, "note": note});
        let kept = &mut observations.kept;
        let mine = kept.iter().filter(|(of, _)| *of == whose).count();
        let gives_way = match () {
            () if mine >= MOST_OF_ONE => kept.iter().position(|(of, _)| *of == whose),
            () if kept.len() >= MOST => Some(0),
            () => None,
        };
        gives_way.and_then(|at| kept.remove(at));
        kept.push_back((whose, row.clone()));
        structured(json!({"observation": row}))
    }
}

/// A page of rows: `limit` of them, from the one that `cursor` counts.
fn paged<'a>(given: &Value, name: &str, rows: impl Iterator<Item = &'a Value>) -> Reply {
    let begins = match &given["cursor"] {
        Value::Null => Some(0),
        cursor => cursor.as_str().and_then(|cursor| cursor.parse::<usize>().ok()),
    };
    let Some(begins) = begins else { return super::wrong("cursor is none that a page before has given") };
    let size = given["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE);
    let size = size.clamp(1, PAGE);
    let mut rest = rows.skip(begins);
    let page: Vec<&Value> = rest.by_ref().take(size).collect();
    let next = rest.next().map(|_| (begins + page.len()).to_string());
    structured(json!({name: page, "next": next}))
}

/// A result for programs, and as text for who reads no other.
fn structured(value: Value) -> Reply {
    let text = value.to_string();
    Reply::result(Raw::of(&json!({"content": [{"type": "text", "text": text}], "structuredContent": value})))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;
    use crate::egress::{Egress, Reach};
    use crate::execute::catalog::{self, Catalogs};
    use crate::execute::instant::Instant;
    use crate::execute::language::check;
    use crate::execute::plan::{self, Plan, Verdict};
    use crate::execute::run::{self, Covered, Finished, RootRows, RunSettings, Shown};
    use crate::execute::sources::{Accounts, Reached, Refused, Settings, SourceError, Upstreams};
    use crate::execute::symbols::{Scope, Seed};
    use crate::mcp::{Backend, Kind, scripted};
    use futures_util::FutureExt;
    use futures_util::future::{BoxFuture, ready};
    use http::HeaderValue;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    /// The demonstration as the one upstream, and nobody's account.
    struct House(Arc<Demo>);

    impl Upstreams for House {
        fn tool(&self, _: &str, upstream: &str, _: &str) -> Option<Arc<dyn Backend>> {
            (upstream == "demo").then(|| self.0.clone() as Arc<dyn Backend>)
        }

        fn at(&self, _: &str) -> Option<String> {
            None
        }
    }

    impl Accounts for House {
        fn bearer(
            &self,
            _: &str,
            _: Arc<Caller>,
            _: Option<Refused>,
        ) -> BoxFuture<'static, Result<Option<HeaderValue>, SourceError>> {
            ready(Ok(None)).boxed()
        }
    }

    struct Sky {
        catalogs: Arc<Catalogs>,
        scope: Scope,
        sources: Arc<Reached>,
        demo: Arc<Demo>,
    }

    impl Sky {
        fn new() -> Sky {
            let mut catalogs = Catalogs::default();
            let loaded = catalog::read(CATALOG, Path::new("solar.yaml")).unwrap();
            assert_eq!(loaded.warnings, [], "the catalog is clean");
            let seeds = loaded.catalog.entities.keys();
            let seeds: Vec<Seed> =
                seeds.map(|entity| Seed { api: "solar".to_owned(), entity: entity.to_owned() }).collect();
            catalogs.add(loaded);
            let demo = Arc::new(Demo::default());
            let house = Arc::new(House(demo.clone()));
            let sources = Reached::new(Settings {
                egress: Egress::new(Reach::default(), rustls::RootCertStore::empty()),
                secrets: Default::default(),
                accounts: house.clone(),
                upstreams: house,
                hosts: Vec::new(),
            });
            let scope = Scope::of_seeds(&seeds, &catalogs).unwrap();
            Sky { catalogs: Arc::new(catalogs), scope, sources: Arc::new(sources), demo }
        }

        fn plan(&self, program: &str) -> Plan {
            let typed =
                check(program, &self.scope).unwrap_or_else(|error| panic!("{}", error.render(program)));
            let now = Instant::parse("2026-11-30T12:00:00Z").unwrap();
            plan::plan(&typed, program, &self.scope, &self.catalogs, now).unwrap()
        }

        async fn run_as(&self, program: &str, run: &str, caller: Arc<Caller>) -> Finished {
            let settings = RunSettings::new(run, Duration::from_secs(60));
            let plan = Arc::new(self.plan(program));
            let ran = run::run(plan, self.catalogs.clone(), self.sources.clone(), caller, settings).await;
            assert_eq!(ran.failed, None, "{program}");
            ran
        }

        async fn run(&self, program: &str) -> Finished {
            self.run_as(program, "run", scripted::caller()).await
        }
    }

    fn rows(root: &RootRows) -> Value {
        match &root.result {
            Shown::Rows { rows, .. } => json!(rows),
            Shown::Text(text) => json!(text),
        }
    }

    #[tokio::test]
    async fn programs_over_the_demonstration_are_answered_by_its_tools() {
        let sky = Sky::new();
        let jupiter = "moons = Planet(\"Jupiter\").moons | filter(radius_km > 1000) | sort(radius_km desc)\nmoons[name, discovered]";
        let ran = sky.run(jupiter).await;
        let found = json!([["Ganymede", 1610], ["Callisto", 1610], ["Io", 1610], ["Europa", 1610]]);
        assert_eq!(rows(&ran.roots[0]), found);
        assert_eq!(ran.roots[0].coverage, Covered::Complete);
        let by_planet =
            "Moon | group_by(planet, n = count(), largest = max(radius_km)) | sort(n desc) | limit(2)";
        assert_eq!(
            rows(&sky.run(by_planet).await.roots[0]),
            json!([["Saturn", 15, 2574.7], ["Jupiter", 10, 2634.1]])
        );
        let flying =
            "Mission | filter(target = Planet(\"Jupiter\"), launched >= \"2010-01-01\", ended is null)[name]";
        let plan = sky.plan(flying);
        assert_eq!((plan.nodes[0].pushed.len(), plan.nodes[0].residual.len()), (2, 1));
        assert_eq!(rows(&sky.run(flying).await.roots[0]), json!([["Juno"], ["Juice"], ["Europa Clipper"]]));
        let back = "Mission(\"Voyager 2\").targets[name, made_of]";
        let there = json!([["Jupiter", "gas"], ["Saturn", "gas"], ["Uranus", "ice"], ["Neptune", "ice"]]);
        assert_eq!(rows(&sky.run(back).await.roots[0]), there);
        assert_eq!(
            rows(&sky.run("Moon(\"Triton\").orbits[fact]").await.roots[0])[0][0],
            "Found in 1846 where calculations said that it would be."
        );
    }

    #[tokio::test]
    async fn forty_one_moons_come_in_pages_of_twenty_and_no_more_are_asked_for_than_needed() {
        let sky = Sky::new();
        let all = sky.run("Moon").await;
        assert_eq!((rows(&all.roots[0]).as_array().unwrap().len(), all.requests), (41, 3));
        let few = sky.run("Moon | limit(20)").await;
        assert_eq!(
            (few.requests, few.roots[0].coverage, few.roots[0].next.is_some()),
            (1, Covered::Partial, true)
        );
    }

    #[tokio::test]
    async fn an_observation_is_a_write_that_its_own_caller_sees_alone() {
        let sky = Sky::new();
        let note = "Observation.create(planet = Planet(\"Mars\"), seen_at = now(), note = \"very red\")";
        let plan = sky.plan(note);
        assert_eq!((plan.effects.len(), plan.verdict), (1, Verdict::Ok));
        let ran = sky.run(note).await;
        assert_eq!(ran.writes[0].done, [json!("o1")]);
        let seen = json!([["o1", "Mars", "2026-11-30T12:00:00Z", "very red"]]);
        assert_eq!(rows(&sky.run("Planet(\"Mars\").observations").await.roots[0]), seen);
        let other = Arc::new(crate::mcp::Principal::minted("t", "https://id.example", "other"));
        let one = scripted::caller();
        let other = Arc::new(Caller {
            access: Arc::new(crate::mcp::Access::open(other)),
            profile: one.profile.clone(),
            client: one.client.clone(),
            version: one.version,
            session: one.session.clone(),
        });
        assert_eq!(rows(&sky.run_as("Observation", "r", other).await.roots[0]), json!([]));
    }

    #[test]
    fn the_oldest_observations_of_a_caller_give_way() {
        let (solar, caller) = (Solar::default(), scripted::caller());
        for n in 0..=MOST_OF_ONE {
            let given = json!({"planet": "Mars", "seen_at": "2026-11-30T12:00:00Z", "note": n.to_string()});
            solar.tool(&caller, "observe", &given).unwrap();
        }
        let observations = solar.observations.lock().unwrap();
        assert_eq!((observations.kept.len(), &observations.kept[0].1["note"]), (MOST_OF_ONE, &json!("1")));
    }

    #[test]
    fn the_catalog_asks_for_tools_that_are_listed() {
        let sky = Sky::new();
        let listing = sky.demo.known(&scripted::caller(), Kind::Tool).unwrap();
        for (id, operation) in sky.catalogs.get("solar").unwrap().catalog.operations.iter() {
            let tool = &operation.mcp.as_ref().unwrap().tool;
            assert!(listing.find(tool).is_some(), "{id}");
        }
    }
}
