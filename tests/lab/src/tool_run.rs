//! Running a tool with a script on its standard input.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use crate::error::LabError;
use crate::tools::Tool;

/// Feeds a script to a tool; an error names the line that the tool refused.
pub(crate) fn run_script(
    mut command: Command,
    tool: Tool,
    node: &str,
    script: &str,
) -> Result<String, LabError> {
    let failed = |source| LabError::StartTool { tool, source };
    command.args(tool.batch_arguments());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut input = child.stdin.take();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            // A tool that refuses a line reads no further. Its exit status shows the failure.
            let _ = input
                .as_mut()
                .map(|input| input.write_all(script.as_bytes()));
        });
        child.wait_with_output().map_err(failed)
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(LabError::ToolRefused {
        tool,
        node: node.to_owned(),
        line: refused_line(&said, script).unwrap_or_default().to_owned(),
        said: said.lines().next().unwrap_or("no reason given").to_owned(),
    })
}

/// ip and tc say `Command failed -:12`, nft says `/dev/stdin:12:`.
fn refused_line<'s>(said: &str, script: &'s str) -> Option<&'s str> {
    let (_, rest) = said
        .rsplit_once("failed -:")
        .or_else(|| said.split_once("/dev/stdin:"))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit());
    let number: usize = rest[..digits.unwrap_or(rest.len())].parse().ok()?;
    script.lines().nth(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_refused_by_tool_is_found() {
        let said = "Error: Nexthop has invalid gateway.\nCommand failed -:2\n";
        assert_eq!(refused_line(said, "a\nb\nc\n"), Some("b"));
        let said = "/dev/stdin:3:55-61: Error: Value 1000000 exceeds valid range\n";
        assert_eq!(refused_line(said, "a\nb\nc\n"), Some("c"));
        assert_eq!(refused_line("nothing of the kind", "a"), None);
        assert_eq!(refused_line("Command failed -:0", "a"), None);
    }
}
