//! What a pickle made, in the shape of the caller's own type: straight from the store, without
//! writing it out before, and without looking at what is not asked for.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::{Item, MAX_DEPTH, MAX_VALUES, PickleError};

impl Error for PickleError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Unfit {
            why: why.to_string(),
        }
    }
}

/// How many values may still be taken out.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Cell::new(MAX_VALUES))
    }

    fn take(&self, values: usize) -> Result<(), PickleError> {
        let left = self.0.get().checked_sub(values);
        self.0.set(left.ok_or(PickleError::Large)?);
        Ok(())
    }
}

/// A value of the store, with all that it names.
#[derive(Clone, Copy)]
pub(super) struct Content<'s> {
    store: &'s [Item<'s>],
    place: usize,
    depth: usize,
    budget: &'s Budget,
}

impl<'s> Content<'s> {
    pub(super) fn at(place: usize, store: &'s [Item<'s>], budget: &'s Budget) -> Self {
        Self {
            store,
            place,
            depth: MAX_DEPTH,
            budget,
        }
    }

    /// What lies there, for one value less that may still be taken out.
    fn item(&self) -> Result<&'s Item<'s>, PickleError> {
        self.budget.take(1)?;
        match &self.store[self.place] {
            _ if self.depth == 0 => Err(PickleError::Deep),
            Item::Text(text) => {
                self.budget.take(text.len() / 64)?;
                Ok(&self.store[self.place])
            }
            item => Ok(item),
        }
    }

    fn inside(&self, place: usize) -> Self {
        Self {
            place,
            depth: self.depth - 1,
            ..*self
        }
    }

    /// As text, as which keys are written that are none.
    fn key(self) -> Result<Cow<'s, str>, PickleError> {
        match self.item()? {
            Item::Text(text) => Ok(Cow::Borrowed(text)),
            _ => {
                let value: Value = serde::Deserialize::deserialize(self)?;
                Ok(Cow::Owned(value.to_string()))
            }
        }
    }
}

impl<'s> Deserializer<'s> for Content<'s> {
    type Error = PickleError;

    fn deserialize_any<V: Visitor<'s>>(self, visitor: V) -> Result<V::Value, PickleError> {
        match self.item()? {
            Item::Plain(value) => value.deserialize_any(visitor).map_err(PickleError::custom),
            Item::Text(text) => visitor.visit_borrowed_str(text),
            Item::Callable(name) => Err(PickleError::Call { name: name.clone() }),
            Item::List(items) => {
                let mut rest = Rest {
                    of: self,
                    places: items.iter(),
                };
                let value = visitor.visit_seq(&mut rest)?;
                match rest.places.len() {
                    0 => Ok(value),
                    more => Err(Error::custom(format!("a list is longer by {more}"))),
                }
            }
            Item::Dict(pairs) => visitor.visit_map(Pairs {
                of: self,
                pairs: pairs.iter(),
                value: 0,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'s>>(self, visitor: V) -> Result<V::Value, PickleError> {
        match &self.store[self.place] {
            Item::Plain(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'s>>(self, visitor: V) -> Result<V::Value, PickleError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'s>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

struct Rest<'s> {
    of: Content<'s>,
    places: std::slice::Iter<'s, usize>,
}

impl<'s> SeqAccess<'s> for &mut Rest<'s> {
    type Error = PickleError;

    fn next_element_seed<S: DeserializeSeed<'s>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, PickleError> {
        let next = self.places.next();
        next.map(|&place| seed.deserialize(self.of.inside(place)))
            .transpose()
    }
}

struct Pairs<'s> {
    of: Content<'s>,
    pairs: std::slice::Iter<'s, [usize; 2]>,
    /// Where the value of the last key lies.
    value: usize,
}

impl<'s> MapAccess<'s> for Pairs<'s> {
    type Error = PickleError;

    fn next_key_seed<S: DeserializeSeed<'s>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, PickleError> {
        let Some(&[key, value]) = self.pairs.next() else {
            return Ok(None);
        };
        self.value = value;
        let key = self.of.inside(key).key()?;
        seed.deserialize(StrDeserializer::new(&key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'s>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, PickleError> {
        seed.deserialize(self.of.inside(self.value))
    }
}
