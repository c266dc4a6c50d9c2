//! The catalogs of `catalogs/`: every program of their pages is planned and run against a local server that answers as the
//! source is documented to. Here is what the three have in common.

use super::*;
use crate::execute::{
    catalog::{Catalogs, Source},
    instant::Instant,
    language::check,
    plan::{self, Plan},
    run::{self, Covered, Cursor, Finished, RunSettings, Shown},
    symbols::{Scope, Seed},
};

mod coverage;
mod gbif;
mod github;
mod linear;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogs")
}

/// One catalog whose source is a local server.
struct Bench {
    catalogs: Arc<Catalogs>,
    scope: Scope,
    sources: Arc<Reached>,
}

impl Bench {
    /// `path`: where on the server its address leads.
    fn new(id: &str, server: &Server, path: &str) -> Bench {
        let loaded = catalog::load_file(&folder().join(format!("{id}.yaml"))).unwrap();
        let mut catalog = (*loaded.catalog).clone();
        if let Source::Http { base_url: url, .. } | Source::Graphql { url, .. } = &mut catalog.source {
            *url = format!("{}{path}", server.base());
        }
        Bench::of(catalog::Loaded { catalog: Arc::new(catalog), ..loaded })
    }

    /// With all of its entities.
    fn of(loaded: catalog::Loaded) -> Bench {
        let seed = |entity: &str| Seed { api: loaded.catalog.id.clone(), entity: entity.to_owned() };
        let seeds: Vec<Seed> = loaded.catalog.entities.keys().map(seed).collect();
        let mut catalogs = Catalogs::default();
        catalogs.add(loaded);
        let scope = Scope::of_seeds(&seeds, &catalogs).unwrap();
        Bench { catalogs: Arc::new(catalogs), scope, sources: Arc::new(sources()) }
    }

    fn plan(&self, program: &str) -> Plan {
        let typed = check(program, &self.scope).unwrap_or_else(|error| panic!("{}", error.render(program)));
        let now = Instant::parse("2026-11-30T12:00:00Z").unwrap();
        plan::plan(&typed, program, &self.scope, &self.catalogs, now).unwrap()
    }

    /// `from`: where an earlier run of the same program stopped.
    async fn goes_on(&self, program: &str, from: Option<Cursor>) -> Finished {
        let settings = RunSettings { from, ..RunSettings::new("run", PATIENCE) };
        let plan = Arc::new(self.plan(program));
        run::run(plan, self.catalogs.clone(), self.sources.clone(), scripted::caller(), settings).await
    }

    async fn run(&self, program: &str) -> Finished {
        let ran = self.goes_on(program, None).await;
        assert_eq!(ran.failed, None, "{program}");
        assert_eq!(ran.warnings, Vec::<String>::new(), "{program}");
        ran
    }

    /// The code and the message of what fails.
    async fn fault(&self, program: &str) -> (&'static str, String) {
        let failed = self.goes_on(program, None).await.failed.unwrap_or_else(|| panic!("{program}"));
        (failed.fault.code, failed.fault.message)
    }
}

/// The rows of each root.
fn tables(ran: &Finished) -> Vec<Json> {
    let rows = |root: &run::RootRows| match &root.result {
        Shown::Rows { rows, .. } => json!(rows),
        Shown::Text(text) => json!(text),
    };
    ran.roots.iter().map(rows).collect()
}

/// The programs of a catalog's page, in its order.
fn programs(id: &str) -> Vec<String> {
    let page = std::fs::read_to_string(folder().join(format!("{id}.md"))).unwrap();
    let blocks = page.split("```plasm\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_catalogs_are_clean_and_each_has_a_page() {
    let catalogs = catalog::load_folder(&folder()).unwrap();
    let ids: Vec<&str> = catalogs.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["gbif", "github", "linear"]);
    for (id, loaded) in catalogs.iter() {
        assert_eq!(loaded.warnings, [], "{id}");
        assert!(programs(id).len() >= 4, "{id}");
        let index = std::fs::read_to_string(folder().join("README.md")).unwrap();
        assert!(index.contains(&format!("[{id}]({id}.md)")), "{id}");
    }
}

/// Runs a program to its end, going on where it stopped: what each part brought, with how it was covered.
async fn parts(bench: &Bench, program: &str) -> Vec<(Vec<i64>, Covered)> {
    let (mut parts, mut from) = (Vec::new(), None);
    loop {
        let ran = bench.goes_on(program, from).await;
        assert_eq!(ran.failed, None, "{program}");
        let rows = tables(&ran).remove(0);
        let numbers = rows.as_array().unwrap().iter().map(|row| row[0].as_i64().unwrap()).collect();
        parts.push((numbers, ran.roots[0].coverage));
        from = ran.roots.into_iter().next().and_then(|root| root.next);
        if from.is_none() || parts.len() > 20 {
            return parts;
        }
    }
}
