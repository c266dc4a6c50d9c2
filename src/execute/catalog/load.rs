//! From files to catalogs: YAML read into types, checked, digested. What is wrong is said with its place and its key.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value as Json;

use super::{Catalog, check, lint};
use crate::{
    config::{ConfigError, KeyPath, Node, Origin, Place, Problem, did_you_mean, parse_yaml, read_yaml},
    execute::canonical,
};

/// Largest catalog file, in bytes.
const LARGEST: u64 = 4 << 20;

/// A catalog that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub catalog: Arc<Catalog>,
    /// SHA-256 of the file's canonical JSON, in hexadecimal: comments, order and white space aside.
    pub digest: String,
    /// What its author should look at.
    pub warnings: Vec<Problem>,
}

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("{}: cannot be read: {why}", .file.display())]
    Unreadable { file: PathBuf, why: std::io::Error },
    /// Everything that is wrong, in the order of the file; never empty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

/// Catalogs by id.
#[derive(Clone, Debug, Default)]
pub struct Catalogs(BTreeMap<String, Loaded>);

impl Catalogs {
    pub fn get(&self, id: &str) -> Option<&Loaded> {
        self.0.get(id)
    }

    /// In lexicographic order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Loaded)> {
        self.0.iter().map(|(id, loaded)| (id.as_str(), loaded))
    }

    /// `false` if there is one of that id already.
    pub fn add(&mut self, loaded: Loaded) -> bool {
        let id = loaded.catalog.id.clone();
        let free = !self.0.contains_key(&id);
        if free {
            self.0.insert(id, loaded);
        }
        free
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Every `*.yaml` and `*.yml` of a folder, not of those below it.
pub fn load_folder(folder: &Path) -> Result<Catalogs, CatalogError> {
    let unreadable = |why| CatalogError::Unreadable { file: folder.to_owned(), why };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
    files.sort();
    let (mut catalogs, mut problems) = (Catalogs::default(), Vec::new());
    for file in files {
        match load_file(&file) {
            Ok(loaded) => {
                let id = loaded.catalog.id.clone();
                if !catalogs.add(loaded) {
                    let message = format!("another file of this folder has a catalog {id:?}");
                    let place = Place { origin: Arc::new(Origin::File(file)), line: 0, column: 0 };
                    problems.push(Problem { place: Some(place), path: KeyPath::of(&["catalog"]), message });
                }
            }
            Err(CatalogError::Invalid(more)) => problems.extend(more),
            Err(error) => return Err(error),
        }
    }
    if problems.is_empty() { Ok(catalogs) } else { Err(CatalogError::Invalid(problems)) }
}

/// One file.
pub fn load_file(file: &Path) -> Result<Loaded, CatalogError> {
    let unreadable = |why| CatalogError::Unreadable { file: file.to_owned(), why };
    let size = std::fs::metadata(file).map_err(unreadable)?.len();
    if size > LARGEST {
        return Err(unreadable(std::io::Error::other(format!("it is larger than {LARGEST} bytes"))));
    }
    read(&std::fs::read_to_string(file).map_err(unreadable)?, file)
}

/// The text of a file; `file` is its name in messages.
pub fn read(text: &str, file: &Path) -> Result<Loaded, CatalogError> {
    let root = parse_yaml(text, file).map_err(|error| invalid(error, None))?;
    let catalog: Catalog = read_yaml(text, file).map_err(|error| invalid(error, Some(&root)))?;
    let placed = |(path, message): (KeyPath, String)| Problem { place: root.place_of(&path), path, message };
    let mut problems: Vec<Problem> = check::check(&catalog).into_iter().map(placed).collect();
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
        return Err(CatalogError::Invalid(problems));
    }
    let warnings = lint::lint(&catalog).into_iter().map(placed).collect();
    let json = serde_json::to_value(&root).unwrap_or(Json::Null);
    Ok(Loaded { catalog: Arc::new(catalog), digest: canonical::sha256(&json), warnings })
}

/// The JSON Schema of a catalog's file, for editors.
pub fn schema() -> Json {
    schemars::schema_for!(Catalog).to_value()
}

/// Gives an error of reading the keys that lead to its place.
fn invalid(error: ConfigError, root: Option<&Node>) -> CatalogError {
    match error {
        ConfigError::Syntax { place, message } => {
            let path = root.map(|root| path_to(root, &place)).unwrap_or_default();
            let message = plain(&message);
            CatalogError::Invalid(vec![Problem { place: Some(place), path, message }])
        }
        ConfigError::Unreadable { file, why } => CatalogError::Unreadable { file, why },
        ConfigError::Invalid(problems) => CatalogError::Invalid(problems),
    }
}

/// The keys of the last thing that begins at the place or before it.
fn path_to(root: &Node, place: &Place) -> KeyPath {
    fn walk(node: &Node, path: &KeyPath, at: (u64, u64), found: &mut KeyPath) {
        let before = |place: Option<&Place>| place.is_some_and(|place| (place.line, place.column) <= at);
        for entry in node.entries().iter().filter(|entry| before(entry.place.as_ref())) {
            let path = path.then(&entry.key);
            *found = path.clone();
            walk(&entry.node, &path, at, found);
        }
        for (index, item) in node.items().iter().enumerate().filter(|(_, item)| before(item.place.as_ref())) {
            let path = path.item(index);
            *found = path.clone();
            walk(item, &path, at, found);
        }
    }
    let mut found = KeyPath::default();
    walk(root, &KeyPath::default(), (place.line, place.column), &mut found);
    found
}

/// The reader's words for an unknown key or word, with the nearest one that is known.
fn plain(message: &str) -> String {
    let Some((about, known)) = message.split_once(", expected ") else { return message.to_owned() };
    let kind = match about {
        about if about.starts_with("unknown field") => "key",
        about if about.starts_with("unknown variant") => "word",
        _ => return message.to_owned(),
    };
    let written = about.split('`').nth(1).unwrap_or_default();
    let known = known.strip_prefix("one of ").unwrap_or(known).replace('`', "").replace(" or ", ", ");
    let near = did_you_mean(written, known.split(", "));
    format!("unknown {kind} {written:?}{near}; there are {known}")
}
