//! Reading pickles without running them.
//!
//! A pickle is a program for a stack machine, and the real machine lets it call anything. This one
//! knows numbers, texts, lists, tuples and dictionaries, and refuses every call but those that writers
//! use for lists of one type and for bytes, which it takes for their argument. What is on the
//! stack are places in a store, so that a pickle that repeats itself costs no more than its bytes;
//! how much is taken out of it is bounded.

mod content;
mod escapes;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PickleError {
    #[error("the pickle ends in the middle of something, at byte {at}")]
    Ends { at: usize },
    #[error("the pickle calls {name}, which is refused")]
    Call { name: String },
    #[error("the pickle has the operation {code:#04x} at byte {at}, which is not read here")]
    Unknown { code: u8, at: usize },
    #[error("the pickle takes from where nothing lies, at byte {at}")]
    Empty { at: usize },
    #[error("the pickle holds something else than expected, at byte {at}")]
    Type { at: usize },
    #[error("the pickle nests deeper than {MAX_DEPTH} levels")]
    Deep,
    #[error("written out, the pickle has more than {MAX_VALUES} values")]
    Large,
    #[error("{why}")]
    Unfit { why: String },
}

/// No recorder nests deeper, and no stack overflows at this.
const MAX_DEPTH: usize = 64;
const MAX_VALUES: usize = 1 << 22;
/// Calls that are taken for the first of this many arguments: lists of one type, and bytes as protocols before the
/// third write them.
const ALLOWED_CALLS: [(&str, usize); 5] = [
    ("torch.jit._pickle build_intlist", 1),
    ("torch.jit._pickle build_doublelist", 1),
    ("torch.jit._pickle build_boollist", 1),
    ("torch.jit._pickle build_tensorlist", 1),
    ("_codecs encode", 2),
];

/// A value in the store; others are named by their places.
#[derive(Debug, Clone, PartialEq)]
enum Item<'b> {
    /// No text.
    Plain(Value),
    Text(Cow<'b, str>),
    List(Vec<usize>),
    Dict(Vec<[usize; 2]>),
    Callable(String),
}

/// What a pickle makes, as a value of this type. Keys that are no text are written as text.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, PickleError> {
    let mut machine = Machine {
        bytes,
        at: 0,
        store: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Default::default(),
    };
    let top = machine.run()?;
    let budget = content::Budget::new();
    T::deserialize(content::Content::at(top, &machine.store, &budget))
}

struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    store: Vec<Item<'b>>,
    stack: Vec<usize>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: std::collections::BTreeMap<u64, usize>,
}

impl<'b> Machine<'b> {
    /// Every operation takes at least one byte, so that this ends.
    fn run(&mut self) -> Result<usize, PickleError> {
        loop {
            let code = self.take(1)?[0];
            match code {
                b'.' => return self.pop(),
                _ => self.step(code)?,
            }
        }
    }

    fn step(&mut self, code: u8) -> Result<(), PickleError> {
        match code {
            // The protocol's number, and the length of a frame: of no account.
            0x80 => self.take(1).map(drop),
            0x95 => self.take(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.since_mark().map(drop),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            b'N' | 0x88 | 0x89 => {
                let plain = [Value::Null, true.into(), false.into()];
                let nth = [b'N', 0x88, 0x89].iter().position(|&it| it == code);
                self.push(Item::Plain(plain[nth.unwrap_or(0)].clone()))
            }
            b'J' | b'K' | b'M' | b'G' | b'I' | b'L' | b'F' | 0x8a | 0x8b => self.number(code),
            b'X' | 0x8c | 0x8d | b'T' | b'U' | b'B' | b'C' | 0x8e | b'S' | b'V' => self.text(code),
            b']' | b')' | b'l' | b't' | 0x85..=0x87 | b'a' | b'e' => self.list(code),
            b'}' | b'd' | b's' | b'u' => self.dict(code),
            b'q' | b'r' | b'p' | 0x94 | b'h' | b'j' | b'g' => self.remember(code),
            b'c' | b'i' | 0x93 | b'R' => self.call(code),
            _ => Err(PickleError::Unknown {
                code,
                at: self.at - 1,
            }),
        }
    }

    fn number(&mut self, code: u8) -> Result<(), PickleError> {
        let number = match code {
            b'J' => i64::from(i32::from_le_bytes(self.array()?)).into(),
            b'K' => u64::from(self.take(1)?[0]).into(),
            b'M' => u64::from(u16::from_le_bytes(self.array()?)).into(),
            b'G' => float(f64::from_be_bytes(self.array()?)),
            0x8a | 0x8b => self.long(code)?,
            _ => self.written_number(code)?,
        };
        self.push(Item::Plain(number))
    }

    /// Little-endian, as many bytes as it needs. What does not fit into 64 bits becomes a float.
    fn long(&mut self, code: u8) -> Result<Value, PickleError> {
        let length = match code {
            0x8a => usize::from(self.take(1)?[0]),
            _ => u32::from_le_bytes(self.array()?) as usize,
        };
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
        if bytes.len() <= 8 {
            let mut whole = [if negative { 0xff } else { 0 }; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            return Ok(i64::from_le_bytes(whole).into());
        }
        if let ([first @ .., 0], 9) = (bytes, bytes.len()) {
            let whole: [u8; 8] = first.try_into().map_err(|_| self.mistyped())?;
            return Ok(u64::from_le_bytes(whole).into());
        }
        Err(self.mistyped())
    }

    /// The oldest protocol writes numbers as lines of text.
    fn written_number(&mut self, code: u8) -> Result<Value, PickleError> {
        let line = self.line()?;
        let line = line.strip_suffix('L').unwrap_or(line);
        let parsed = match code {
            b'F' => line.parse().map(float).ok(),
            b'I' if line == "00" || line == "01" => Some((line == "01").into()),
            _ => {
                let unsigned = || line.parse::<u64>().map(Value::from);
                line.parse::<i64>()
                    .map(Value::from)
                    .or_else(|_| unsigned())
                    .ok()
            }
        };
        parsed.ok_or_else(|| self.mistyped())
    }

    fn text(&mut self, code: u8) -> Result<(), PickleError> {
        let text = match code {
            b'S' | b'V' => {
                let line = self.raw_line()?;
                let decoded = match code {
                    b'S' => escapes::quoted(line),
                    _ => escapes::raw_unicode(line),
                };
                Cow::Owned(decoded.ok_or_else(|| self.mistyped())?)
            }
            _ => {
                let length = match code {
                    0x8c | b'U' | b'C' => u64::from(self.take(1)?[0]),
                    0x8d | 0x8e => u64::from_le_bytes(self.array()?),
                    _ => u64::from(u32::from_le_bytes(self.array()?)),
                };
                let length = usize::try_from(length);
                let length = length.map_err(|_| PickleError::Ends { at: self.at })?;
                String::from_utf8_lossy(self.take(length)?)
            }
        };
        self.push(Item::Text(text))
    }

    fn list(&mut self, code: u8) -> Result<(), PickleError> {
        let items = match code {
            b']' | b')' => Vec::new(),
            b'l' | b't' | b'e' => self.since_mark()?,
            b'a' => vec![self.pop()?],
            _ => {
                let count = usize::from(code - 0x84);
                let from = self.stack.len().checked_sub(count);
                self.stack.split_off(from.ok_or_else(|| self.empty())?)
            }
        };
        if code != b'a' && code != b'e' {
            return self.push(Item::List(items));
        }
        let list = self.top()?;
        let mistyped = self.mistyped();
        match &mut self.store[list] {
            Item::List(list) => list.extend(items),
            _ => return Err(mistyped),
        }
        Ok(())
    }

    fn dict(&mut self, code: u8) -> Result<(), PickleError> {
        let flat = match code {
            b'}' => Vec::new(),
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.since_mark()?,
        };
        let mistyped = self.mistyped();
        if !flat.len().is_multiple_of(2) {
            return Err(mistyped);
        }
        let pairs = flat.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        if code == b'}' || code == b'd' {
            return self.push(Item::Dict(pairs.collect()));
        }
        let dict = self.top()?;
        match &mut self.store[dict] {
            Item::Dict(dict) => dict.extend(pairs),
            _ => return Err(mistyped),
        }
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<(), PickleError> {
        let key = match code {
            b'q' | b'h' => u64::from(self.take(1)?[0]),
            b'r' | b'j' => u64::from(u32::from_le_bytes(self.array()?)),
            0x94 => self.memo.len() as u64,
            _ => self.line()?.parse().map_err(|_| self.mistyped())?,
        };
        if matches!(code, b'h' | b'j' | b'g') {
            let known = self.memo.get(&key).copied();
            self.stack.push(known.ok_or_else(|| self.empty())?);
            return Ok(());
        }
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn call(&mut self, code: u8) -> Result<(), PickleError> {
        match code {
            b'c' => {
                let name = self.callable()?;
                self.push(Item::Callable(name))
            }
            b'i' => Err(PickleError::Call {
                name: self.callable()?,
            }),
            0x93 => {
                let [name, module] = [self.pop()?, self.pop()?];
                let name = format!("{} {}", self.named(module), self.named(name));
                self.push(Item::Callable(name))
            }
            _ => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                let name = match &self.store[callable] {
                    Item::Callable(name) => name.clone(),
                    _ => return Err(self.mistyped()),
                };
                let first = match &self.store[arguments] {
                    Item::List(arguments) => {
                        let known = ALLOWED_CALLS.contains(&(name.as_str(), arguments.len()));
                        arguments.first().filter(|_| known).copied()
                    }
                    _ => None,
                };
                self.stack.push(first.ok_or(PickleError::Call { name })?);
                Ok(())
            }
        }
    }

    fn callable(&mut self) -> Result<String, PickleError> {
        let (module, name) = (self.line()?, self.line()?);
        Ok(format!("{module} {name}"))
    }

    fn named(&self, place: usize) -> String {
        match &self.store[place] {
            Item::Text(name) => name.to_string(),
            _ => "something".to_owned(),
        }
    }

    fn push(&mut self, item: Item<'b>) -> Result<(), PickleError> {
        self.stack.push(self.store.len());
        self.store.push(item);
        Ok(())
    }

    fn pop(&mut self) -> Result<usize, PickleError> {
        self.stack.pop().ok_or_else(|| self.empty())
    }

    fn top(&self) -> Result<usize, PickleError> {
        self.stack.last().copied().ok_or_else(|| self.empty())
    }

    fn since_mark(&mut self) -> Result<Vec<usize>, PickleError> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len());
        let mark = mark.ok_or_else(|| self.empty())?;
        Ok(self.stack.split_off(mark))
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], PickleError> {
        let end = self.at.checked_add(count);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or(PickleError::Ends { at: self.at })?;
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let at = self.at;
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| PickleError::Ends { at })
    }

    fn line(&mut self) -> Result<&'b str, PickleError> {
        let line = self.raw_line()?;
        str::from_utf8(line).map_err(|_| self.mistyped())
    }

    fn raw_line(&mut self) -> Result<&'b [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n');
        let line = self.take(length.ok_or(PickleError::Ends { at: self.at })?)?;
        self.take(1)?;
        Ok(line)
    }

    fn empty(&self) -> PickleError {
        PickleError::Empty { at: self.at }
    }

    fn mistyped(&self) -> PickleError {
        PickleError::Type { at: self.at }
    }
}

/// What is no number in JSON is nothing.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
pub(crate) mod tests;
