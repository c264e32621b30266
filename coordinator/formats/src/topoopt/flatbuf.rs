//! Reading FlatBuffers: tables of optional fields, found by offsets.
//!
//! Offsets only ever point forward here, except from a table to its description, as the format has
//! it; so nothing nests for ever. A hostile file could let many offsets point to the same bytes:
//! therefore what is read is counted, and may not be more than the file is long.

use std::cell::Cell;

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlatbufError {
    #[error("byte {at} is outside of the file, which has {length}")]
    Outside { at: usize, length: usize },
    #[error("the table at byte {at} has a broken description")]
    BrokenTable { at: usize },
    #[error("the list at byte {at} claims {count} elements, more than the file holds")]
    TooLong { at: usize, count: u32 },
    #[error("the same bytes are used many times over")]
    Reused,
}

/// The bytes of a file, and how many elements may still be read.
#[derive(Debug)]
pub(super) struct Buffer<'b> {
    bytes: &'b [u8],
    left: Cell<usize>,
}

impl<'b> Buffer<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            left: Cell::new(bytes.len()),
        }
    }

    pub(super) fn root(&self) -> Result<Table<'_>, FlatbufError> {
        Table::at(self, self.forward(0)?)
    }

    fn read<const N: usize>(&self, at: usize) -> Result<[u8; N], FlatbufError> {
        let bytes = at.checked_add(N).and_then(|end| self.bytes.get(at..end));
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or(FlatbufError::Outside {
            at,
            length: self.bytes.len(),
        })
    }

    /// Where the offset at `at` points to.
    fn forward(&self, at: usize) -> Result<usize, FlatbufError> {
        let offset = u32::from_le_bytes(self.read(at)?);
        // Both are less than 2^33.
        Ok(at + offset as usize)
    }

    fn count(&self, elements: usize) -> Result<(), FlatbufError> {
        let left = self.left.get().checked_sub(elements);
        self.left.set(left.ok_or(FlatbufError::Reused)?);
        Ok(())
    }
}

/// A number as it stands in the file.
pub(super) trait Scalar: Sized {
    const BYTES: usize;
    fn read(buffer: &Buffer<'_>, at: usize) -> Result<Self, FlatbufError>;
}

macro_rules! scalar {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            const BYTES: usize = size_of::<Self>();
            fn read(buffer: &Buffer<'_>, at: usize) -> Result<Self, FlatbufError> {
                buffer.read(at).map(Self::from_le_bytes)
            }
        }
    )*};
}

scalar!(i16, i32, u32, u64, f32);

/// A table: which field lies where is said by its description.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'b> {
    buffer: &'b Buffer<'b>,
    at: usize,
    description: usize,
    description_bytes: usize,
}

impl<'b> Table<'b> {
    fn at(buffer: &'b Buffer<'b>, at: usize) -> Result<Self, FlatbufError> {
        let back = i32::read(buffer, at)?;
        let broken = FlatbufError::BrokenTable { at };
        let description = i64::try_from(at).ok().map(|at| at - i64::from(back));
        let description = description.and_then(|at| usize::try_from(at).ok());
        let description = description.ok_or_else(|| broken.clone())?;
        let description_bytes = usize::from(u16::from_le_bytes(buffer.read(description)?));
        if description_bytes < 4 || description_bytes % 2 != 0 {
            return Err(broken);
        }
        buffer.count(1)?;
        Ok(Self {
            buffer,
            at,
            description,
            description_bytes,
        })
    }

    /// Where the `index`-th field lies; nowhere when the writer left it out.
    fn field(&self, index: usize) -> Result<Option<usize>, FlatbufError> {
        let entry = 4 + 2 * index;
        if entry + 2 > self.description_bytes {
            return Ok(None);
        }
        let offset = u16::from_le_bytes(self.buffer.read(self.description + entry)?);
        Ok((offset != 0).then(|| self.at + usize::from(offset)))
    }

    /// The number in a field, or zero where it was left out.
    pub(super) fn scalar<T: Scalar + Default>(&self, index: usize) -> Result<T, FlatbufError> {
        let at = self.field(index)?;
        at.map_or(Ok(T::default()), |at| T::read(self.buffer, at))
    }

    pub(super) fn scalars<T: Scalar>(&self, index: usize) -> Result<Vec<T>, FlatbufError> {
        let Some((at, count)) = self.list(index, T::BYTES)? else {
            return Ok(Vec::new());
        };
        let places = (0..count).map(|n| at + n * T::BYTES);
        places.map(|at| T::read(self.buffer, at)).collect()
    }

    pub(super) fn tables(&self, index: usize) -> Result<Vec<Self>, FlatbufError> {
        let Some((at, count)) = self.list(index, 4)? else {
            return Ok(Vec::new());
        };
        let places = (0..count).map(|n| at + n * 4);
        let table = |at| Self::at(self.buffer, self.buffer.forward(at)?);
        places.map(table).collect()
    }

    /// The first element of a list and how many there are, all of them inside the file.
    fn list(&self, index: usize, size: usize) -> Result<Option<(usize, usize)>, FlatbufError> {
        let Some(field) = self.field(index)? else {
            return Ok(None);
        };
        let at = self.buffer.forward(field)?;
        let count = u32::read(self.buffer, at)?;
        let (first, elements) = (at + 4, count as usize);
        let end = elements
            .checked_mul(size)
            .and_then(|all| all.checked_add(first));
        if end.is_none_or(|end| end > self.buffer.bytes.len()) {
            return Err(FlatbufError::TooLong { at, count });
        }
        self.buffer.count(elements)?;
        Ok(Some((first, elements)))
    }
}
