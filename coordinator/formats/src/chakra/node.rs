//! The nodes of an execution trace, as they are written.

use super::ChakraError;
use crate::protobuf::{Field, ProtobufError, Reader};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Metadata,
    Memory,
    Compute,
    Send,
    Receive,
    Collective,
}

impl Kind {
    fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Metadata,
            2 | 3 => Self::Memory,
            4 => Self::Compute,
            5 => Self::Send,
            6 => Self::Receive,
            7 => Self::Collective,
            _ => return None,
        })
    }
}

/// What a node says of itself, as far as it matters for its time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) after: Vec<u64>,
    pub(super) duration_us: u64,
    pub(super) on_cpu: bool,
    pub(super) comm_type: Option<u64>,
    pub(super) comm_bytes: u64,
    pub(super) source: Option<u64>,
    pub(super) destination: Option<u64>,
    pub(super) tag: u64,
    pub(super) group: String,
}

/// The fields of a node by their numbers.
mod field {
    pub(super) const ID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const KIND: u64 = 3;
    pub(super) const CONTROL_DEPENDENCIES: u64 = 4;
    pub(super) const DATA_DEPENDENCIES: u64 = 5;
    pub(super) const DURATION_US: u64 = 7;
    pub(super) const ATTRIBUTES: u64 = 10;
    pub(super) const ATTRIBUTE_NAME: u64 = 1;
    /// Signed and unsigned numbers of 32 and 64 bits, and truth.
    pub(super) const ATTRIBUTE_NUMBERS: [u64; 5] = [7, 9, 11, 13, 27];
    pub(super) const ATTRIBUTE_TEXT: u64 = 29;
}

impl Node {
    pub(super) fn read(message: &[u8]) -> Result<Self, ChakraError> {
        let mut node = Self {
            id: 0,
            name: String::new(),
            kind: Kind::Metadata,
            after: Vec::new(),
            duration_us: 0,
            on_cpu: false,
            comm_type: None,
            comm_bytes: 0,
            source: None,
            destination: None,
            tag: 0,
            group: String::new(),
        };
        let mut kind = 0;
        for field in Reader::new(message) {
            let field = field?;
            match field.number {
                field::ID => node.id = field.whole()?,
                field::NAME => node.name = field.text()?.to_owned(),
                field::KIND => kind = field.whole()?,
                field::CONTROL_DEPENDENCIES | field::DATA_DEPENDENCIES => {
                    field.all_whole(&mut node.after)?;
                }
                field::DURATION_US => node.duration_us = field.whole()?,
                field::ATTRIBUTES => node.attribute(&field)?,
                _ => {}
            }
        }
        let id = node.id;
        node.kind = Kind::numbered(kind).ok_or(ChakraError::UnknownKind { id, kind })?;
        node.after.sort_unstable();
        node.after.dedup();
        Ok(node)
    }

    fn attribute(&mut self, field: &Field<'_>) -> Result<(), ProtobufError> {
        let (mut name, mut number, mut text) = ("", None, "");
        for field in Reader::new(field.bytes()?) {
            let field = field?;
            match field.number {
                field::ATTRIBUTE_NAME => name = field.text()?,
                field::ATTRIBUTE_TEXT => text = field.text()?,
                other if field::ATTRIBUTE_NUMBERS.contains(&other) => {
                    number = Some(field.whole()?);
                }
                _ => {}
            }
        }
        match name {
            "is_cpu_op" => self.on_cpu = number.unwrap_or(0) != 0,
            "comm_type" => self.comm_type = number,
            "comm_size" => self.comm_bytes = number.unwrap_or(0),
            "comm_src" => self.source = number,
            "comm_dst" => self.destination = number,
            "comm_tag" => self.tag = number.unwrap_or(0),
            "pg_name" => self.group = text.to_owned(),
            _ => {}
        }
        Ok(())
    }
}
