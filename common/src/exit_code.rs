//! Exit codes of all programs, each with its one meaning.

/// Done.
pub const DONE: u8 = 0;
/// Failed, refused, or unsound.
pub const FAILED: u8 = 1;
/// Bad usage or input: nothing was tried.
pub const BAD_USAGE: u8 = 2;
/// Something was found, or changes are pending: where an option such as `--exit-code` asks for it, or where the help of
/// the command says so.
pub const FOUND: u8 = 3;
/// The command to run is there and cannot be executed, as shells have it.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command to run does not exist, as shells have it.
pub const NOT_FOUND: u8 = 127;
/// What shells add to the number of the signal that ended a program.
pub const SIGNAL_OFFSET: i32 = 128;
