//! A catalog's file before it is written: values whose maps keep their order.

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::config::Ordered;

/// A value of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sheet {
    Value(Json),
    Map(Ordered<Sheet>),
}

impl Sheet {
    pub fn yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("its keys are strings and its values JSON")
    }
}

impl Serialize for Sheet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Sheet::Value(value) => value.serialize(to),
            Sheet::Map(map) => map.serialize(to),
        }
    }
}

impl<V: Into<Json>> From<V> for Sheet {
    fn from(value: V) -> Sheet {
        Sheet::Value(value.into())
    }
}

/// A map of those parts; the keys must be unique.
pub(super) fn map<K: Into<String>>(parts: impl IntoIterator<Item = (K, Sheet)>) -> Sheet {
    Sheet::Map(parts.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// A map of those parts that are there.
pub(super) fn some(parts: impl IntoIterator<Item = (&'static str, Option<Sheet>)>) -> Sheet {
    map(parts.into_iter().filter_map(|(key, value)| Some((key, value?))))
}
