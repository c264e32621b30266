//! Vendors' software that installs the routes of a switch, a module each. A new vendor is a value of [`RoutesBy`] and
//! an implementation of [`Vendor`].

mod frr;
mod redis;
mod sonic;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use reweave_common::forwarding_state::RouteRule;

use super::SwitchError;
use frr::Frr;
pub use redis::RedisAddress;
use sonic::ConfigDb;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RoutesBy {
    /// The agent, by netlink, in a table of its own
    #[default]
    Kernel,
    /// FRR's static routes, by vtysh
    Frr,
    /// Static routes of SONiC's `CONFIG_DB`
    Sonic,
}

#[derive(Debug, Clone, Default, Args)]
pub struct Software {
    /// Software that installs routes
    #[arg(long, value_enum, default_value_t = RoutesBy::Kernel)]
    pub routes_by: RoutesBy,
    /// Folder with the sockets of FRR's daemons, if vtysh does not find it
    #[arg(long, value_name = "DIR")]
    pub vty: Option<PathBuf>,
    /// Address of SONiC's database: a socket's path, or ADDRESS:PORT [default: /var/run/redis/redis.sock]
    #[arg(long, value_name = "WHERE")]
    pub config_db: Option<RedisAddress>,
}

impl Software {
    /// None where the agent installs routes itself.
    pub(super) fn vendor(&self) -> Option<Box<dyn Vendor>> {
        match self.routes_by {
            RoutesBy::Kernel => None,
            RoutesBy::Frr => Some(Box::new(Frr::new(self.vty.clone()))),
            RoutesBy::Sonic => {
                let place = self.config_db.clone().unwrap_or_default();
                Some(Box::new(ConfigDb::new(place)))
            }
        }
    }
}

/// Software that takes routes and hands them to the kernel, and to the hardware.
pub(super) trait Vendor: Send + Sync {
    fn name(&self) -> &'static str;

    /// What most often stands in the way.
    fn remedy(&self) -> &'static str;

    /// Our routes in its configuration.
    fn configured(&self) -> Result<Vec<RouteRule>, SwitchError>;

    /// What would have to be sent to it, in its own words.
    fn words_to(&self, desired: &[RouteRule]) -> Result<Vec<String>, SwitchError>;

    fn tell(&self, desired: &[RouteRule]) -> Result<RoutePush, SwitchError>;

    /// Whether it takes away what should go before it adds what comes.
    fn removes_first(&self) -> bool {
        false
    }

    /// Whether the hardware under it follows the kernel's rules, as pins are.
    fn follows_pins(&self) -> bool {
        true
    }
}

/// The result of sending routes to the routing software.
#[derive(Debug)]
pub(super) struct RoutePush {
    /// Ours before.
    pub(super) before: Vec<RouteRule>,
    pub(super) anything: bool,
}
