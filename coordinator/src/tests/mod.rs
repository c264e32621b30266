//! The program's parts together, without a network.

mod event_loop;
mod replaying;
pub(crate) mod scene;
mod shape;
#[path = "../../../proto/src/tests/shapes.rs"]
mod shapes;

#[test]
fn the_page_of_commands_is_made_of_them() {
    let program = <crate::Arguments as clap::CommandFactory>::command();
    crate::commands::are_told(program, "..");
}
