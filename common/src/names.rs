//! Names given by users. They become host names, file names and command arguments, so their characters are restricted.

/// The longest name of a node, a job or a scenario.
pub const MAX_NAME_BYTES: usize = 32;

/// Whether `name` has 1 to `longest` allowed characters and cannot be taken for an option, a path or a hidden file.
pub fn is_plain(name: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=longest).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
}

/// Whether an interface of Linux can have this name: `dev_valid_name` in the kernel's `net/core/dev.c`. Control
/// characters and what is not ASCII are refused as well.
pub fn is_interface(name: &str) -> bool {
    /// `IFNAMSIZ` less the zero at its end.
    const MAX_INTERFACE_BYTES: usize = 15;
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:".contains(&byte);
    (1..=MAX_INTERFACE_BYTES).contains(&name.len())
        && name.bytes().all(is_allowed)
        && ![".", ".."].contains(&name)
}

/// Returns the error for an invalid name of a `what`.
pub fn refusal(name: &str, what: &str) -> String {
    format!(
        "{name:?} is not a valid name for a {what}: use up to {MAX_NAME_BYTES} letters, digits, \
         '-', '_', '.', of which the first is a letter or digit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_follow_the_kernel() {
        for name in [
            "eth0",
            "ens1f0np0",
            "bond0.100",
            "eth\"1",
            "fifteen-letters",
        ] {
            assert!(is_interface(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "eth0:1",
            "a/b",
            "eth 0",
            "eth\t0",
            "sixteen-letters-",
        ] {
            assert!(!is_interface(name), "{name}");
        }
    }
}
