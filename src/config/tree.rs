//! What a source says, before anything is known of settings: a tree that keeps order and places. YAML and JSON become
//! such trees, environment and flags too; trees are laid over one another, and the result is read into `Config`.

use std::{fmt, marker::PhantomData, path::Path, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

use super::problem::{ConfigError, KeyPath, Origin, Place};

/// A value and where it stands (`None`: nowhere a person could look).
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub place: Option<Place>,
    pub node: Node,
}

impl Node {
    pub fn map() -> Self {
        Self { value: Value::Map(Vec::new()), place: None }
    }

    pub fn text(text: impl Into<String>, place: Option<Place>) -> Self {
        Self { value: Value::Text(text.into()), place }
    }

    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    pub fn items(&self) -> &[Node] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Value::Map(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let Value::Map(entries) = &mut self.value else { return None };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(index))
    }

    /// The map's entry of that key, made as an empty map where it is missing. `self` becomes a map if it is none.
    pub fn entry(&mut self, key: &str) -> &mut Node {
        if !matches!(self.value, Value::Map(_)) {
            self.value = Value::Map(Vec::new());
        }
        let Value::Map(entries) = &mut self.value else { unreachable!("made a map above") };
        let index = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            entries.push(Entry { key: key.to_owned(), place: None, node: Node::map() });
            entries.len() - 1
        });
        &mut entries[index].node
    }

    pub fn set(&mut self, path: &[&str], node: Node) {
        *path.iter().fold(self, |at, key| at.entry(key)) = node;
    }

    /// The place of the setting at that path, or of the nearest thing around it that is written down.
    pub fn place_of(&self, path: &KeyPath) -> Option<Place> {
        let mut at = self;
        let mut place = None;
        for key in &path.0 {
            let next = match &at.value {
                Value::Map(entries) => entries.iter().find(|entry| entry.key == *key).map(|entry| {
                    place = entry.place.clone().or(place.take());
                    &entry.node
                }),
                Value::List(items) => key
                    .trim_matches(['[', ']'])
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index))
                    .inspect(|item| place = item.place.clone().or(place.take())),
                _ => None,
            };
            let Some(next) = next else { break };
            at = next;
        }
        place
    }

    /// Lays another tree over this one: maps are joined key by key, everything else is replaced.
    pub fn overlay(&mut self, over: Node) {
        match (&mut self.value, over.value) {
            (Value::Map(under), Value::Map(over)) => {
                for entry in over {
                    match under.iter_mut().find(|have| have.key == entry.key) {
                        Some(have) => {
                            have.place = entry.place;
                            have.node.overlay(entry.node);
                        }
                        None => under.push(entry),
                    }
                }
            }
            (value, over_value) => {
                *value = over_value;
                self.place = over.place;
            }
        }
    }

    /// Takes out keys without a value: `key:` in YAML means the default, as templates often write it.
    pub fn prune(&mut self) {
        match &mut self.value {
            Value::Map(entries) => {
                entries.retain(|entry| entry.node.value != Value::Null);
                entries.iter_mut().for_each(|entry| entry.node.prune());
            }
            Value::List(items) => items.iter_mut().for_each(Node::prune),
            _ => {}
        }
    }

    /// What it is, for a message: `the text "x"`. Long text is cut; callers never pass secrets.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(text) if text.chars().count() > 40 => {
                format!("the text {:?}…", text.chars().take(40).collect::<String>())
            }
            Value::Text(text) => format!("the text {text:?}"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// Reads YAML. Duplicate keys are errors; `yes` and `on` are text, not booleans.
pub fn parse_yaml(text: &str, file: &Path) -> Result<Node, ConfigError> {
    let mut root = read_yaml::<Located>(text, file)?.node();
    name_origin(&mut root, &Arc::new(Origin::File(file.to_owned())));
    root.prune();
    Ok(root)
}

/// Reads YAML into a type, by the same rules; whatever does not fit is an error with its place.
pub fn read_yaml<T: DeserializeOwned>(text: &str, file: &Path) -> Result<T, ConfigError> {
    let mut options = serde_saphyr::Options::default();
    options.strict_booleans = true;
    options.with_snippet = false;
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        let message = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let origin = Arc::new(Origin::File(file.to_owned()));
        ConfigError::Syntax { place: Place { origin, line, column }, message: without_place(&message) }
    })
}

/// Reads JSON. Places in it have no lines: clients write these files, and paths say enough.
pub fn parse_json(text: &str, file: &Path) -> Result<Node, ConfigError> {
    let origin = Arc::new(Origin::File(file.to_owned()));
    let mut root: Node = serde_json::from_str(text).map_err(|error| ConfigError::Syntax {
        place: Place {
            origin: Arc::clone(&origin),
            line: error.line() as u64,
            column: error.column() as u64,
        },
        message: without_place(&error.to_string()),
    })?;
    name_origin(&mut root, &origin);
    root.prune();
    Ok(root)
}

/// A parser's message without the ` at line …` at its end, which the place says already.
fn without_place(message: &str) -> String {
    message.rfind(" at line ").map_or(message, |end| &message[..end]).to_owned()
}

/// Puts the source's name into every place of the tree.
fn name_origin(node: &mut Node, origin: &Arc<Origin>) {
    let name = |place: &mut Option<Place>| {
        let (line, column) = place.as_ref().map_or((0, 0), |place| (place.line, place.column));
        *place = Some(Place { origin: Arc::clone(origin), line, column });
    };
    name(&mut node.place);
    match &mut node.value {
        Value::Map(entries) => {
            for entry in entries {
                name(&mut entry.place);
                name_origin(&mut entry.node, origin);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| name_origin(item, origin)),
        _ => {}
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::Integer(value) => to.serialize_i64(*value),
            Value::Float(value) => to.serialize_f64(*value),
            Value::Text(text) => to.serialize_str(text),
            Value::List(items) => {
                let mut list = to.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Value::Map(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|entry| map.serialize_entry(&entry.key, &entry.node))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = from.deserialize_any(Reader::<Node, String>(PhantomData))?;
        Ok(Self { value, place: None })
    }
}

/// A node read from YAML, which knows lines and columns.
struct Located(serde_saphyr::Spanned<LocatedValue>);
struct LocatedValue(Value);

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde_saphyr::Spanned::deserialize(from).map(Self)
    }
}

impl<'de> Deserialize<'de> for LocatedValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader::<Located, serde_saphyr::Spanned<String>>(PhantomData)).map(Self)
    }
}

/// How a reader's children and keys become nodes and text with places.
trait Child {
    fn node(self) -> Node;
}
trait Key {
    fn key(self) -> (String, Option<Place>);
}

impl Child for Node {
    fn node(self) -> Node {
        self
    }
}
impl Key for String {
    fn key(self) -> (String, Option<Place>) {
        (self, None)
    }
}
impl Child for Located {
    fn node(self) -> Node {
        Node { value: self.0.value.0, place: Some(place_at(&self.0.referenced)) }
    }
}
impl Key for serde_saphyr::Spanned<String> {
    fn key(self) -> (String, Option<Place>) {
        let place = place_at(&self.referenced);
        (self.value, Some(place))
    }
}

/// A place whose origin `name_origin` puts in afterwards: a deserializer cannot carry it along.
fn place_at(at: &serde_saphyr::Location) -> Place {
    Place { origin: Arc::new(Origin::Flag("")), line: at.line(), column: at.column() }
}

struct Reader<C, K>(PhantomData<(C, K)>);

impl<'de, C: Child + Deserialize<'de>, K: Key + Deserialize<'de>> Visitor<'de> for Reader<C, K> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a map, a list, text, a number or a boolean")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        // No setting reaches beyond 63 bits; a larger number is refused by its bound as well when it is a float.
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }
    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<C>()? {
            items.push(item.node());
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((key, child)) = map.next_entry::<K, C>()? {
            let (key, place) = key.key();
            if entries.iter().any(|entry| entry.key == key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands twice in one map")));
            }
            entries.push(Entry { key, place, node: child.node() });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Node {
        parse_yaml(text, Path::new("a.yaml")).unwrap()
    }

    #[test]
    fn yaml_keeps_order_and_places() {
        let root = yaml("zeta: 1\nalpha:\n  - on\n  - b: true\n");
        assert_eq!(
            root.entries().iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(),
            ["zeta", "alpha"]
        );
        let place = root.place_of(&KeyPath::of(&["alpha", "[1]", "b"])).unwrap();
        assert_eq!(place.to_string(), "a.yaml:4:5");
        assert_eq!(serde_json::to_string(&root).unwrap(), r#"{"zeta":1,"alpha":["on",{"b":true}]}"#);
    }

    #[test]
    fn an_empty_value_is_an_absent_key() {
        assert_eq!(yaml("listen:\nlimits:\n  json_depth: ~\n").entries().len(), 1);
        assert_eq!(serde_json::to_string(&yaml("limits: {json_depth: ~}")).unwrap(), r#"{"limits":{}}"#);
    }

    #[test]
    fn an_overlay_replaces_leaves_and_joins_maps() {
        let mut under = yaml("a: {x: 1, y: [1, 2]}\nb: 1\n");
        under.overlay(yaml("a: {y: [3], z: 4}\n"));
        assert_eq!(serde_json::to_string(&under).unwrap(), r#"{"a":{"x":1,"y":[3],"z":4},"b":1}"#);
    }

    #[test]
    fn syntax_errors_say_line_and_column() {
        let error = parse_yaml("listen: 1\nlimits: [1\n", Path::new("a.yaml")).unwrap_err().to_string();
        assert!(error.starts_with("a.yaml:"), "{error}");
        let twice = parse_yaml("a: 1\nb: 2\na: 3\n", Path::new("a.yaml")).unwrap_err().to_string();
        insta::assert_snapshot!(twice, @"a.yaml:3:1: duplicate mapping key: a not allowed here");
        let json = parse_json("{\"a\": 1,\n \"a\" 2}", Path::new("m.json")).unwrap_err().to_string();
        insta::assert_snapshot!(json, @"m.json:2:6: expected `:`");
    }
}
