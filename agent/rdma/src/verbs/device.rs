//! RDMA devices and their ports.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::ptr;
use std::rc::Rc;

use rdma_sys::{
    ___ibv_query_port, ibv_close_device, ibv_context, ibv_device, ibv_device_attr_ex,
    ibv_free_device_list, ibv_get_device_list, ibv_get_device_name, ibv_gid, ibv_open_device,
    ibv_port_attr, ibv_port_state, ibv_query_device_ex, ibv_query_gid,
};
use reweave_common::probing::Stamps;
use reweave_common::rdma::{Gid, GidKind, LinkLayer, RdmaPort};

use super::done;
use crate::clock::NicClock;
use crate::error::RdmaError;
use crate::link;

/// `IBV_LINK_LAYER_INFINIBAND`; what says nothing is of that kind too, as it came first.
const INFINIBAND_LINK_LAYERS: [u8; 2] = [0, 1];

/// An open device.
pub(crate) struct Context {
    raw: *mut ibv_context,
    name: String,
}

/// The port that has an address of this host.
pub(crate) struct LocalPort {
    pub(crate) context: Rc<Context>,
    pub(crate) number: u8,
    pub(crate) gid: Gid,
    pub(crate) mtu_bytes: u32,
}

/// All present devices.
pub(crate) fn contexts() -> Result<Vec<Context>, RdmaError> {
    let list = DeviceList::get()?;
    list.devices().map(Context::open).collect()
}

impl LocalPort {
    pub(crate) fn of(address: Ipv4Addr) -> Result<Self, RdmaError> {
        for context in contexts()? {
            for port in context.ports()?.into_iter().filter(|port| port.up) {
                if let Some(&gid) = port.gid_of(address) {
                    return Ok(Self {
                        context: Rc::new(context),
                        number: port.port,
                        gid,
                        mtu_bytes: port.mtu_bytes,
                    });
                }
            }
        }
        Err(RdmaError::NoPort { address })
    }
}

#[allow(
    unsafe_code,
    reason = "the library fills in what it is handed, and the device stays open as long as this lives"
)]
impl Context {
    fn open(device: *mut ibv_device) -> Result<Self, RdmaError> {
        let name = unsafe { CStr::from_ptr(ibv_get_device_name(device)) };
        let name = name.to_string_lossy().into_owned();
        let raw = unsafe { ibv_open_device(device) };
        if raw.is_null() {
            let source = io::Error::last_os_error();
            return Err(RdmaError::Open {
                device: name,
                source,
            });
        }
        Ok(Self { raw, name })
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.raw
    }

    /// The clock that stamps completions, if there is one.
    pub(super) fn clock(&self) -> Result<Option<NicClock>, RdmaError> {
        let attributes = self.attributes()?;
        let mask = attributes.completion_timestamp_mask;
        Ok(NicClock::new(attributes.hca_core_clock, mask))
    }

    pub(crate) fn ports(&self) -> Result<Vec<RdmaPort>, RdmaError> {
        let count = self.attributes()?.orig_attr.phys_port_cnt;
        (1..=count).map(|number| self.port(number)).collect()
    }

    fn attributes(&self) -> Result<ibv_device_attr_ex, RdmaError> {
        let mut attributes: ibv_device_attr_ex = unsafe { mem::zeroed() };
        let asked = unsafe { ibv_query_device_ex(self.raw, ptr::null(), &mut attributes) };
        done("ask what an RDMA device can do", asked)?;
        Ok(attributes)
    }

    fn port(&self, number: u8) -> Result<RdmaPort, RdmaError> {
        let mut port: ibv_port_attr = unsafe { mem::zeroed() };
        let asked = unsafe { ___ibv_query_port(self.raw, number, &mut port) };
        done("ask how an RDMA port is doing", asked)?;
        let stamps = match self.clock()? {
            Some(_) => Stamps::Hardware,
            None => Stamps::Program,
        };
        let layer = if INFINIBAND_LINK_LAYERS.contains(&port.link_layer) {
            LinkLayer::Infiniband
        } else {
            LinkLayer::Ethernet
        };
        let gids = (0..u32::try_from(port.gid_tbl_len).unwrap_or(0))
            .filter_map(|index| self.gid(number, index, layer));
        Ok(RdmaPort {
            device: self.name.clone(),
            port: number,
            up: port.state == ibv_port_state::IBV_PORT_ACTIVE,
            layer,
            speed: link::speed(port.active_width, port.active_speed),
            mtu_bytes: link::mtu_bytes(port.active_mtu),
            most_mtu_bytes: link::mtu_bytes(port.max_mtu),
            stamps,
            gids: gids.collect(),
        })
    }

    /// None where the table has a gap.
    fn gid(&self, port: u8, index: u32, layer: LinkLayer) -> Option<Gid> {
        let mut gid = ibv_gid { raw: [0; 16] };
        let place = i32::try_from(index).ok()?;
        let asked = unsafe { ibv_query_gid(self.raw, port, place, &mut gid) };
        let bytes = unsafe { gid.raw };
        (asked == 0 && bytes != [0; 16]).then(|| Gid {
            index,
            kind: self.gid_kind(port, index, layer),
            bytes,
        })
    }

    /// Older versions of the library do not report the kind.
    fn gid_kind(&self, port: u8, index: u32, layer: LinkLayer) -> GidKind {
        let path = format!(
            "/sys/class/infiniband/{}/ports/{port}/gid_attrs/types/{index}",
            self.name
        );
        let text = fs::read_to_string(path).unwrap_or_default();
        match (layer, text.trim()) {
            (LinkLayer::Infiniband, _) => GidKind::Infiniband,
            (_, "RoCE v2") => GidKind::RoceV2,
            _ => GidKind::RoceV1,
        }
    }
}

#[allow(unsafe_code, reason = "nothing that was made from it is left")]
impl Drop for Context {
    fn drop(&mut self) {
        unsafe { ibv_close_device(self.raw) };
    }
}

struct DeviceList {
    first: *mut *mut ibv_device,
    count: usize,
}

#[allow(
    unsafe_code,
    reason = "the list has as many entries as the library says, and lives until it is freed"
)]
impl DeviceList {
    fn get() -> Result<Self, RdmaError> {
        let mut count = 0;
        let first = unsafe { ibv_get_device_list(&mut count) };
        if first.is_null() {
            let source = io::Error::last_os_error();
            return Err(RdmaError::List { source });
        }
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Self { first, count })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        (0..self.count).map(|index| unsafe { *self.first.add(index) })
    }
}

#[allow(unsafe_code, reason = "devices that were opened stay open without it")]
impl Drop for DeviceList {
    fn drop(&mut self) {
        unsafe { ibv_free_device_list(self.first) };
    }
}
