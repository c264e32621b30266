//! A coordinator hears of the end of every session, however the program that opened it ends; and a command that it
//! knows as a job ends as it does anyway.

#[cfg(test)]
#[path = "../../../tests/lab/tests/support/executable.rs"]
mod executable;
#[cfg(test)]
#[path = "parting/goodbyes.rs"]
mod goodbyes;
#[cfg(test)]
#[path = "parting/maintained.rs"]
mod maintained;
#[cfg(test)]
#[path = "parting/nics.rs"]
mod nics;
#[cfg(test)]
#[path = "parting/orders.rs"]
mod orders;
#[cfg(test)]
#[path = "parting/policy.rs"]
mod policy;
#[cfg(test)]
#[path = "parting/printed.rs"]
mod printed;
#[cfg(test)]
#[path = "parting/running.rs"]
mod running;
#[cfg(test)]
#[path = "parting/scene.rs"]
mod scene;
#[cfg(test)]
#[path = "json/session_commands.rs"]
mod session_commands;
#[cfg(test)]
#[path = "parting/slurm.rs"]
mod slurm;
#[cfg(test)]
#[path = "../../../tests/lab/tests/support/timed.rs"]
mod timed;
