//! The program's parts together, without a network.

mod event_loop;
mod replaying;
pub(crate) mod scene;
mod shape;
#[path = "../../../proto/src/tests/shapes.rs"]
mod shapes;

#[test]
fn command_docs_match_cli() {
    let program = <crate::Arguments as clap::CommandFactory>::command();
    crate::commands::arguments_are_documented(program, "..");
}
