//! A queue pair with its resources.

use std::mem;
use std::ptr;
use std::rc::Rc;

use rdma_sys::{
    ibv_access_flags, ibv_ah, ibv_ah_attr, ibv_create_ah, ibv_create_qp, ibv_destroy_ah,
    ibv_destroy_qp, ibv_gid, ibv_modify_qp, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr,
    ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags,
    ibv_send_wr, ibv_sge, ibv_wr_opcode, rdma_t, ud_t,
};

use super::memory::{Domain, Memory};
use super::queue::{Queue, SENT_ID};
use super::{LocalPort, done, failed};
use crate::error::RdmaError;
use crate::link;
use crate::meeting::{End, Region};
use reweave_common::rdma::Transport;

/// What it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Messages back and forth.
    Messages(Transport),
    /// Writes to or from this much memory.
    Writes { bytes: usize },
}

/// Room for a message, and before it for the header that datagrams are received with.
const SLOT_BYTES: usize = GRH_BYTES + 64;
const GRH_BYTES: usize = 40;
/// Messages that may arrive before the program has looked at them.
const RECEIVE_SLOTS: usize = 16;
/// The slot that is sent from; a message begins there where it would begin in one received.
const SEND_OFFSET_BYTES: usize = RECEIVE_SLOTS * SLOT_BYTES;
/// Requests that may wait at once.
const MAX_SEND_REQUESTS: u32 = 16;
/// Routers on the way, at most.
const HOP_LIMIT: u8 = 64;

pub(crate) struct Pair {
    raw: *mut ibv_qp,
    /// Where datagrams go.
    way: Option<*mut ibv_ah>,
    kind: Kind,
    port: LocalPort,
    end: End,
    far: Option<End>,
    queue: Queue,
    memory: Memory,
    domain: Rc<Domain>,
}

impl Kind {
    fn transport(self) -> Transport {
        match self {
            Self::Messages(transport) => transport,
            Self::Writes { .. } => Transport::Rc,
        }
    }
}

#[allow(
    unsafe_code,
    reason = "zero is a setting of all of the library's structures, and all that requests point to outlives \
              the call that posts them"
)]
impl Pair {
    /// Ready to be connected. `first_packet` and `key` are drawn at random.
    pub(crate) fn open(
        port: LocalPort,
        kind: Kind,
        [first_packet, key]: [u32; 2],
    ) -> Result<Self, RdmaError> {
        let domain = Domain::new(&port.context)?;
        let (bytes, remote) = match kind {
            Kind::Messages(_) => (SEND_OFFSET_BYTES + SLOT_BYTES, false),
            Kind::Writes { bytes } => (bytes, true),
        };
        let memory = Memory::new(&domain, bytes, remote)?;
        let queue = Queue::new(&port.context, 4 * MAX_SEND_REQUESTS)?;
        let raw = create(&domain, &queue, kind.transport())?;
        let end = End {
            queue_pair: unsafe { (*raw).qp_num },
            first_packet: first_packet & 0x00ff_ffff,
            key: key & 0x7fff_ffff,
            gid: port.gid.bytes,
            mtu_bytes: port.mtu_bytes,
        };
        let pair = Self {
            raw,
            way: None,
            kind,
            port,
            end,
            far: None,
            queue,
            memory,
            domain,
        };
        pair.initialize()?;
        Ok(pair)
    }

    /// The data that the other end needs to connect.
    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// What the other end may write to.
    pub(crate) fn region(&self) -> Region {
        self.memory.region()
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Can receive from now on, and send.
    pub(crate) fn connect(&mut self, far: End) -> Result<(), RdmaError> {
        if let Kind::Messages(_) = self.kind {
            (0..RECEIVE_SLOTS).try_for_each(|slot| self.receive(slot))?;
        }
        match self.kind.transport() {
            Transport::Rc => self.become_connected(&far)?,
            Transport::Ud => self.become_ready(&far)?,
        }
        self.far = Some(far);
        Ok(())
    }

    /// Lets the next message come into this slot.
    pub(crate) fn receive(&self, slot: usize) -> Result<(), RdmaError> {
        let mut part = self.memory.part(slot * SLOT_BYTES, SLOT_BYTES);
        let mut request: ibv_recv_wr = unsafe { mem::zeroed() };
        request.wr_id = slot as u64;
        request.sg_list = &mut part;
        request.num_sge = 1;
        let mut bad = ptr::null_mut();
        let posted = unsafe { ibv_post_recv(self.raw, &mut request, &mut bad) };
        done("ask to receive a message", posted)
    }

    /// What has come into a slot.
    pub(crate) fn message<const N: usize>(&self, slot: usize) -> [u8; N] {
        let skipped = match self.kind.transport() {
            Transport::Ud => GRH_BYTES,
            Transport::Rc => 0,
        };
        self.memory.read(slot * SLOT_BYTES + skipped)
    }

    pub(crate) fn send<const N: usize>(&self, message: [u8; N]) -> Result<(), RdmaError> {
        self.memory.write(SEND_OFFSET_BYTES, &message);
        let mut part = self.memory.part(SEND_OFFSET_BYTES, N);
        let mut request = request(&mut part, ibv_wr_opcode::IBV_WR_SEND);
        if let (Some(ah), Some(far)) = (self.way, self.far) {
            request.wr.ud = ud_t {
                ah,
                remote_qpn: far.queue_pair,
                remote_qkey: far.key,
            };
        }
        self.post(&mut request)
    }

    /// Writes the first bytes of the memory to the first of the other end's.
    pub(crate) fn write(&self, bytes: usize, to: &Region) -> Result<(), RdmaError> {
        let mut part = self.memory.part(0, bytes);
        let mut request = request(&mut part, ibv_wr_opcode::IBV_WR_RDMA_WRITE);
        request.wr.rdma = rdma_t {
            remote_addr: to.address,
            rkey: to.key,
        };
        self.post(&mut request)
    }

    fn post(&self, request: &mut ibv_send_wr) -> Result<(), RdmaError> {
        let mut bad = ptr::null_mut();
        let posted = unsafe { ibv_post_send(self.raw, request, &mut bad) };
        done("send", posted)
    }

    fn initialize(&self) -> Result<(), RdmaError> {
        let mut settings = settings(ibv_qp_state::IBV_QPS_INIT);
        settings.port_num = self.port.number;
        let mut named = ibv_qp_attr_mask::IBV_QP_STATE
            | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ibv_qp_attr_mask::IBV_QP_PORT;
        match self.kind.transport() {
            Transport::Ud => {
                settings.qkey = self.end.key;
                named |= ibv_qp_attr_mask::IBV_QP_QKEY;
            }
            Transport::Rc => {
                settings.qp_access_flags = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
                named |= ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
            }
        }
        self.modify("set up a queue pair", settings, named)
    }

    fn become_connected(&self, far: &End) -> Result<(), RdmaError> {
        let mut receiving = settings(ibv_qp_state::IBV_QPS_RTR);
        receiving.path_mtu = link::mtu_code(self.end.mtu_bytes.min(far.mtu_bytes));
        receiving.dest_qp_num = far.queue_pair;
        receiving.rq_psn = far.first_packet;
        receiving.max_dest_rd_atomic = 1;
        receiving.min_rnr_timer = 12;
        receiving.ah_attr = self.way_to(far);
        let named = ibv_qp_attr_mask::IBV_QP_STATE
            | ibv_qp_attr_mask::IBV_QP_AV
            | ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ibv_qp_attr_mask::IBV_QP_RQ_PSN
            | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        self.modify("let a queue pair receive", receiving, named)?;
        let mut sending = settings(ibv_qp_state::IBV_QPS_RTS);
        sending.sq_psn = self.end.first_packet;
        sending.timeout = 14; // 67 ms
        sending.retry_cnt = 7;
        sending.rnr_retry = 6;
        sending.max_rd_atomic = 1;
        let named = ibv_qp_attr_mask::IBV_QP_STATE
            | ibv_qp_attr_mask::IBV_QP_SQ_PSN
            | ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
            | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("let a queue pair send", sending, named)
    }

    fn become_ready(&mut self, far: &End) -> Result<(), RdmaError> {
        let receiving = settings(ibv_qp_state::IBV_QPS_RTR);
        let state = ibv_qp_attr_mask::IBV_QP_STATE;
        self.modify("let a queue pair receive", receiving, state)?;
        let mut sending = settings(ibv_qp_state::IBV_QPS_RTS);
        sending.sq_psn = self.end.first_packet;
        let named = state | ibv_qp_attr_mask::IBV_QP_SQ_PSN;
        self.modify("let a queue pair send", sending, named)?;
        let mut way = self.way_to(far);
        let way = unsafe { ibv_create_ah(self.domain.raw(), &mut way) };
        if way.is_null() {
            return Err(failed("find a route to the other host"));
        }
        self.way = Some(way);
        Ok(())
    }

    fn way_to(&self, far: &End) -> ibv_ah_attr {
        let mut way: ibv_ah_attr = unsafe { mem::zeroed() };
        way.grh.dgid = ibv_gid { raw: far.gid };
        way.grh.sgid_index = u8::try_from(self.port.gid.index).unwrap_or(0);
        way.grh.hop_limit = HOP_LIMIT;
        // Where it is known, NICs make the UDP source port from it: each measurement may take another path.
        way.grh.flow_label = (self.end.first_packet ^ far.first_packet) & 0x000f_ffff;
        way.is_global = 1;
        way.port_num = self.port.number;
        way
    }

    fn modify(
        &self,
        what: &'static str,
        mut settings: ibv_qp_attr,
        named: ibv_qp_attr_mask,
    ) -> Result<(), RdmaError> {
        let named = named.0.cast_signed();
        done(what, unsafe {
            ibv_modify_qp(self.raw, &mut settings, named)
        })
    }
}

#[allow(
    unsafe_code,
    reason = "each is destroyed once; what they use goes after them"
)]
impl Drop for Pair {
    fn drop(&mut self) {
        unsafe { ibv_destroy_qp(self.raw) };
        if let Some(way) = self.way {
            unsafe { ibv_destroy_ah(way) };
        }
    }
}

#[allow(
    unsafe_code,
    reason = "the domain and the queue live as long as the pair"
)]
fn create(domain: &Domain, queue: &Queue, transport: Transport) -> Result<*mut ibv_qp, RdmaError> {
    let mut settings: ibv_qp_init_attr = unsafe { mem::zeroed() };
    settings.send_cq = queue.raw();
    settings.recv_cq = queue.raw();
    settings.cap.max_send_wr = MAX_SEND_REQUESTS;
    settings.cap.max_recv_wr = RECEIVE_SLOTS as u32;
    settings.cap.max_send_sge = 1;
    settings.cap.max_recv_sge = 1;
    settings.qp_type = match transport {
        Transport::Ud => ibv_qp_type::IBV_QPT_UD,
        Transport::Rc => ibv_qp_type::IBV_QPT_RC,
    };
    let raw = unsafe { ibv_create_qp(domain.raw(), &mut settings) };
    if raw.is_null() {
        return Err(failed("make a queue pair"));
    }
    Ok(raw)
}

#[allow(unsafe_code, reason = "zero is a setting of all of it")]
fn settings(state: ibv_qp_state::Type) -> ibv_qp_attr {
    let mut settings: ibv_qp_attr = unsafe { mem::zeroed() };
    settings.qp_state = state;
    settings
}

/// Completed with a word.
#[allow(unsafe_code, reason = "zero is a setting of all of it")]
fn request(part: &mut ibv_sge, what: ibv_wr_opcode::Type) -> ibv_send_wr {
    let mut request: ibv_send_wr = unsafe { mem::zeroed() };
    request.wr_id = SENT_ID;
    request.sg_list = part;
    request.num_sge = 1;
    request.opcode = what;
    request.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    request
}
