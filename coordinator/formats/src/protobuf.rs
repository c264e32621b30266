//! Reading protocol buffers: a message is a sequence of numbered fields.
//!
//! Nothing is copied, and nothing nests unless its reader asks for it.

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProtobufError {
    #[error("it ends in the middle of something, {at} bytes after its beginning")]
    Ends { at: usize },
    #[error("a number is longer than ten bytes, {at} bytes after the beginning")]
    LongNumber { at: usize },
    #[error("field {field} has the wire type {wire}, which is unknown")]
    WireType { field: u64, wire: u64 },
    #[error("field {field} is of another type than expected")]
    Type { field: u64 },
    #[error("field {field} is not UTF-8")]
    NotText { field: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'b> {
    Number(u64),
    Fixed,
    Bytes(&'b [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field<'b> {
    pub(crate) number: u64,
    pub(crate) value: Value<'b>,
}

impl<'b> Field<'b> {
    pub(crate) fn whole(&self) -> Result<u64, ProtobufError> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.mistyped()),
        }
    }

    pub(crate) fn bytes(&self) -> Result<&'b [u8], ProtobufError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mistyped()),
        }
    }

    pub(crate) fn text(&self) -> Result<&'b str, ProtobufError> {
        let field = self.number;
        str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::NotText { field })
    }

    /// Whole numbers of a repeated field, which may be packed together or come one by one.
    pub(crate) fn all_whole(&self, into: &mut Vec<u64>) -> Result<(), ProtobufError> {
        match self.value {
            Value::Number(number) => into.push(number),
            Value::Fixed => return Err(self.mistyped()),
            Value::Bytes(bytes) => {
                let mut reader = Reader::new(bytes);
                while !reader.is_at_end() {
                    into.push(reader.number()?);
                }
            }
        }
        Ok(())
    }

    fn mistyped(&self) -> ProtobufError {
        ProtobufError::Type { field: self.number }
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn number(&mut self) -> Result<u64, ProtobufError> {
        let begin = self.at;
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            // Bits beyond the 64th are lost, as everywhere.
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ProtobufError::LongNumber { at: begin })
    }

    /// As many bytes as the number before them says.
    pub(crate) fn delimited(&mut self) -> Result<&'b [u8], ProtobufError> {
        let length = self.number()?;
        let length = usize::try_from(length).map_err(|_| ProtobufError::Ends { at: self.at })?;
        self.take(length)
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], ProtobufError> {
        let end = self.at.checked_add(count);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or(ProtobufError::Ends { at: self.at })?;
        self.at += count;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<Field<'b>, ProtobufError> {
        let key = self.number()?;
        let (number, wire) = (key >> 3, key & 7);
        let value = match wire {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => Value::Bytes(self.delimited()?),
            5 => self.take(4).map(|_| Value::Fixed)?,
            wire => {
                return Err(ProtobufError::WireType {
                    field: number,
                    wire,
                });
            }
        };
        Ok(Field { number, value })
    }
}

impl<'b> Iterator for Reader<'b> {
    type Item = Result<Field<'b>, ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}
