//! A line of JSON in, a line of JSON out, until the agent is gone.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader is gone"
)]

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use reweave_common::rdma::{Answer, MAX_LINE_BYTES, Request};
use reweave_rdma::Helper;

fn main() -> ExitCode {
    match attend(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "error: lost the connection to the agent: {error}"
            );
            ExitCode::FAILURE
        }
    }
}

fn attend(requests: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    let mut helper = Helper::default();
    let mut line = String::new();
    loop {
        line.clear();
        let length = requests.take(MAX_LINE_BYTES as u64).read_line(&mut line)?;
        if length == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => helper.answer(&request),
            Err(error) => Answer::Failed {
                because: format!("invalid request: {error}"),
            },
        };
        serde_json::to_writer(&mut *answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(requests: &[u8]) -> Vec<Answer> {
        let mut said = vec![];
        attend(&mut { requests }, &mut said).unwrap();
        let lines = said.split(|&byte| byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    #[test]
    fn each_line_gets_one_answer() {
        let answers = answers(b"garbage\n{\"fly\":1}\n");
        assert_eq!(answers.len(), 2);
        for answer in answers {
            let Answer::Failed { because } = answer else {
                panic!("{answer:?}");
            };
            assert!(because.contains("invalid request"), "{because}");
        }
    }

    #[cfg(not(feature = "rdma"))]
    #[test]
    fn plain_build_names_missing_feature() {
        let answers = answers(b"\"ports\"\n");
        let [Answer::Failed { because }] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert!(because.contains("without the feature rdma"), "{because}");
    }
}
