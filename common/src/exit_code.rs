//! Exit codes of all programs.

pub const DONE: u8 = 0;
/// Failed, refused, or unsound.
pub const FAILED: u8 = 1;
/// Bad usage or input: nothing was tried.
pub const BAD_USAGE: u8 = 2;
/// Something was found, or changes are pending: with an option such as `--exit-code`, or where the help of the command
/// says so.
pub const FOUND: u8 = 3;
/// The command to run exists and cannot be executed, as in shells.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command to run does not exist, as in shells.
pub const NOT_FOUND: u8 = 127;
/// Shells add this to the number of the signal that ended a program.
pub const SIGNAL_OFFSET: i32 = 128;
