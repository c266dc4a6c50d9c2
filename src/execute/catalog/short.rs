//! Reading what may be written short: a name in place of a map.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// What text alone stands for.
pub trait Short: Sized {
    /// The map that may be written as well.
    type Long: Into<Self>;
    const EXPECTED: &'static str;
    fn of_text(text: &str) -> Self;
}

/// For `#[serde(deserialize_with)]` and `Deserialize` alike; unlike an untagged enum it keeps places and messages.
pub fn read<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Short,
    T::Long: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Reader<T>(PhantomData<T>);
    impl<'de, T: Short> Visitor<'de> for Reader<T>
    where
        T::Long: Deserialize<'de>,
    {
        type Value = T;
        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str(T::EXPECTED)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            Ok(T::of_text(text))
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::Long::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
        }
    }
    from.deserialize_any(Reader(PhantomData))
}
