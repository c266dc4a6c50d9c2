//! Any text as a program: a tree that is printed and parses to itself, an error with a place in the text, a correction that is
//! accepted.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use plasm_mcp::execute::catalog::{self, Catalogs};
use plasm_mcp::execute::language::{check, parse, print};
use plasm_mcp::execute::symbols::{Scope, Seed};

fn scope() -> &'static Scope {
    static SCOPE: OnceLock<Scope> = OnceLock::new();
    SCOPE.get_or_init(|| {
        let mut catalogs = Catalogs::default();
        for text in [
            include_str!("../../tests/language/catalogs/pokeapi.yaml"),
            include_str!("../../tests/language/catalogs/tracker.yaml"),
        ] {
            catalogs.add(catalog::read(text, Path::new("corpus")).expect("the corpus's catalogs are good"));
        }
        let seed = |api: &str, entity: &str| Seed { api: api.to_owned(), entity: entity.to_owned() };
        let seeds = [
            seed("pokeapi", "Type"),
            seed("pokeapi", "Pokemon"),
            seed("tracker", "Project"),
            seed("tracker", "Issue"),
            seed("tracker", "Label"),
        ];
        Scope::of_seeds(&seeds, &catalogs).expect("the catalogs have these")
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = check(text, scope()) {
        assert!(text.get(error.span.start..error.span.end).is_some());
        error.render(text);
        if let Some(fix) = &error.fix {
            assert!(check(fix, scope()).is_ok());
        }
    }
    if let Ok(program) = parse(text) {
        let printed = print(&program);
        let again = parse(&printed).expect("what is printed is a program");
        assert_eq!(print(&again), printed);
    }
});
