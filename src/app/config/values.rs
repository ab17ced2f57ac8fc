//! Values as people write them: numbers and lists also as texts, since the environment knows nothing else.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use secrecy::SecretString;
use serde::de::value::StrDeserializer;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Unexpected, Visitor};

/// One of Discord's ids: a number, or a text of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) u64);

/// A whole number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

/// An amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dollars(pub(super) f64);

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag(pub(super) bool);

/// A text that is never shown.
#[derive(Clone, Debug)]
pub(super) struct Secret(pub(super) SecretString);

/// A list, or a text with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

/// Takes one plain value from a number, a truth value or a text.
struct Plain<T> {
    expected: &'static str,
    from_text: fn(&str) -> Option<T>,
    from_whole: fn(u64) -> Option<T>,
    from_float: fn(f64) -> Option<T>,
    from_bool: fn(bool) -> Option<T>,
}

impl<T> Visitor<'_> for Plain<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.from_text)(text.trim()).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.from_whole)(number)
            .ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            // Only amounts have a use for a negative number: their own rule says why it is refused.
            Err(_) => (self.from_float)(number as f64)
                .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        (self.from_float)(number).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<T, E> {
        (self.from_bool)(truth).ok_or_else(|| E::invalid_type(Unexpected::Bool(truth), &self))
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        deserializer.deserialize_any(Plain {
            expected: "an id of digits, as Discord's \"Copy ID\" gives it",
            from_text: |text| parsed(text).filter(|id| *id > 0).map(Id),
            from_whole: |id| (id > 0).then_some(Id(id)),
            from_float: |_| None,
            from_bool: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        deserializer.deserialize_any(Plain {
            expected: "a whole number",
            from_text: |text| parsed(text).map(Count),
            from_whole: |number| Some(Count(number)),
            from_float: |_| None,
            from_bool: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dollars, D::Error> {
        deserializer.deserialize_any(Plain {
            expected: "an amount of dollars such as 2.50",
            from_text: |text| parsed(text).map(Dollars),
            from_whole: |number| Some(Dollars(number as f64)),
            from_float: |number| Some(Dollars(number)),
            from_bool: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Flag, D::Error> {
        deserializer.deserialize_any(Plain {
            expected: "true or false",
            from_text: |text| parsed(text).map(Flag),
            from_whole: |_| None,
            from_float: |_| None,
            from_bool: |truth| Some(Flag(truth)),
        })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(|text| Secret(SecretString::from(text)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        deserializer.deserialize_any(Items(PhantomData))
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(List(list))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<List<T>, E> {
        text.trim()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .split(',')
            .map(|item| item.trim().trim_matches('"'))
            .filter(|item| !item.is_empty())
            .map(|item| T::deserialize(StrDeserializer::<E>::new(item)))
            .collect::<Result<_, _>>()
            .map(List)
    }
}
