//! Types of a catalog: value domains, fields and arguments.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    locator::Locator,
    short::{self, Short},
};

/// What every value is, at bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// Short text, compared and sorted.
    String,
    /// Long text.
    Text,
    Int,
    Float,
    Bool,
    /// An instant, RFC 3339 in programs.
    Datetime,
    /// A day, `2026-11-30`.
    Date,
    Uuid,
    /// Anything.
    Json,
    /// Binary data, base64.
    Bytes,
    /// One of `values`.
    Enum,
}

impl Base {
    pub const ALL: [(&'static str, Base); 11] = [
        ("string", Base::String),
        ("text", Base::Text),
        ("int", Base::Int),
        ("float", Base::Float),
        ("bool", Base::Bool),
        ("datetime", Base::Datetime),
        ("date", Base::Date),
        ("uuid", Base::Uuid),
        ("json", Base::Json),
        ("bytes", Base::Bytes),
        ("enum", Base::Enum),
    ];

    pub fn of_name(name: &str) -> Option<Base> {
        Self::ALL.iter().find(|(have, _)| *have == name).map(|(_, base)| *base)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, base)| *base == self).map_or("json", |(name, _)| name)
    }
}

/// How a datetime is written upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeWire {
    #[default]
    Rfc3339,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
}

/// A value domain: a base and its bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub base: Base,
    /// The members of an `enum`, in the order they are taught.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Longest text, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_len: Option<u64>,
    /// Least number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Greatest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The media type of a text or of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// How a `datetime` is written upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<TimeWire>,
}

impl Domain {
    pub fn of(base: Base) -> Self {
        Self { base, values: Vec::new(), max_len: None, min: None, max: None, media: None, wire: None }
    }
}

/// What a field or an argument holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Holds {
    /// A base or a type of the catalog, by name.
    Named(String),
    /// A domain written in place.
    Inline(Domain),
    /// The identity of an entity of the catalog, by its name.
    Ref(String),
}

impl Holds {
    fn of(named: Option<String>, to: Option<String>, domain: Option<Domain>) -> Result<Self, &'static str> {
        match (named, to, domain) {
            (Some(name), None, None) => Ok(Holds::Named(name)),
            (None, Some(entity), None) => Ok(Holds::Ref(entity)),
            (None, None, Some(domain)) => Ok(Holds::Inline(domain)),
            _ => Err("expected exactly one of type, ref and base"),
        }
    }
}

/// A field of an entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub holds: Holds,
    pub nullable: bool,
    /// Where it lies in the row; by default under its own name.
    pub at: Option<Locator>,
    pub about: Option<String>,
}

/// The keys of a domain, of a name or of a reference: exactly one of the three.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongField {
    /// A type of this catalog, or a base.
    #[serde(rename = "type")]
    named: Option<String>,
    /// An entity of this catalog whose identity it holds.
    #[serde(rename = "ref")]
    to: Option<String>,
    /// A base, with bounds beside it.
    base: Option<Base>,
    #[serde(default)]
    values: Vec<String>,
    max_len: Option<u64>,
    min: Option<f64>,
    max: Option<f64>,
    media: Option<String>,
    wire: Option<TimeWire>,
    /// Whether it may be null.
    #[serde(default)]
    nullable: bool,
    /// Where it lies in the row.
    at: Option<Locator>,
    /// What it means, for the teaching table.
    about: Option<String>,
}

impl TryFrom<LongField> for Field {
    type Error = &'static str;

    fn try_from(long: LongField) -> Result<Field, &'static str> {
        let LongField { named, to, base, values, max_len, min, max, media, wire, nullable, at, about } = long;
        if base.is_none()
            && (!values.is_empty() || max_len.is_some() || min.is_some() || max.is_some() || wire.is_some())
        {
            return Err("bounds stand beside base, or in a type of the catalog");
        }
        let domain = base.map(|base| Domain { base, values, max_len, min, max, media, wire });
        Ok(Field { holds: Holds::of(named, to, domain)?, nullable, at, about })
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Field, D::Error> {
        let read: Result<Field, &str> = short::read::<FieldRead, D>(from)?.0;
        read.map_err(serde::de::Error::custom)
    }
}

struct FieldRead(Result<Field, &'static str>);

impl From<LongField> for FieldRead {
    fn from(long: LongField) -> FieldRead {
        FieldRead(Field::try_from(long))
    }
}

impl Short for FieldRead {
    type Long = LongField;
    const EXPECTED: &'static str = "the name of a type, or a map";
    fn of_text(text: &str) -> Self {
        FieldRead(Ok(Field { holds: Holds::Named(text.to_owned()), nullable: false, at: None, about: None }))
    }
}

impl JsonSchema for Field {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Field".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<LongField>();
        json_schema!({"anyOf": [{"type": "string", "description": "A type of this catalog, or a base."}, long]})
    }
}

/// Whether an argument must be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// The query cannot be asked without it: it says where to look.
    Scope,
    Required,
    #[default]
    Optional,
}

/// A comparison that an argument of a query can carry out upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Op {
    #[serde(rename = "=")]
    Eq,
    #[serde(rename = "!=")]
    Ne,
    #[serde(rename = "<")]
    Lt,
    #[serde(rename = "<=")]
    Le,
    #[serde(rename = ">")]
    Gt,
    #[serde(rename = ">=")]
    Ge,
    #[serde(rename = "~")]
    Has,
    #[serde(rename = "in")]
    In,
}

impl Op {
    pub fn text(self) -> &'static str {
        match self {
            Op::Eq => "=",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Has => "~",
            Op::In => "in",
        }
    }
}

/// An argument of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub holds: Holds,
    pub need: Need,
    /// What a filter on it may ask of upstream.
    pub ops: Vec<Op>,
    /// Its name upstream, for the reader; what is sent stands in the mapping.
    pub wire: Option<String>,
    pub about: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongArg {
    /// A type of this catalog, or a base.
    #[serde(rename = "type")]
    named: Option<String>,
    /// An entity of this catalog whose identity it takes.
    #[serde(rename = "ref")]
    to: Option<String>,
    /// A base, with bounds beside it.
    base: Option<Base>,
    #[serde(default)]
    values: Vec<String>,
    max_len: Option<u64>,
    min: Option<f64>,
    max: Option<f64>,
    media: Option<String>,
    /// `scope`: it says where to look; `required`; or `optional`.
    #[serde(default)]
    need: Need,
    /// The comparisons that are pushed upstream with it.
    #[serde(default = "equality")]
    ops: Vec<Op>,
    /// Its name upstream.
    wire: Option<String>,
    /// What it means, for the teaching table.
    about: Option<String>,
}

fn equality() -> Vec<Op> {
    vec![Op::Eq]
}

struct ArgRead(Result<Arg, &'static str>);

impl From<LongArg> for ArgRead {
    fn from(long: LongArg) -> ArgRead {
        let LongArg { named, to, base, values, max_len, min, max, media, need, ops, wire, about } = long;
        let domain = base.map(|base| Domain { base, values, max_len, min, max, media, wire: None });
        ArgRead(Holds::of(named, to, domain).map(|holds| Arg { holds, need, ops, wire, about }))
    }
}

impl Short for ArgRead {
    type Long = LongArg;
    const EXPECTED: &'static str = "the name of a type, or a map";
    fn of_text(text: &str) -> Self {
        let holds = Holds::Named(text.to_owned());
        ArgRead(Ok(Arg { holds, need: Need::Optional, ops: equality(), wire: None, about: None }))
    }
}

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Arg, D::Error> {
        short::read::<ArgRead, D>(from)?.0.map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Arg {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Arg".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<LongArg>();
        json_schema!({"anyOf": [{"type": "string", "description": "A type of this catalog, or a base."}, long]})
    }
}
