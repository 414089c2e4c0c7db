//! A connection behind its handshake as bytes, by which another process goes on with it.
use crate::keys::{Secret, Suite, SECRET_MAX};
use crate::record::Keys;

/// "OBT" and the number of this layout; the suite's number; whether the other side wants new keys; a zero; both
/// numbers of records; both secrets, what is sent first. Numbers are little-endian.
const VERSION: [u8; 4] = *b"OBT\x01";
const SENDING: usize = 24;
const RECEIVING: usize = SENDING + SECRET_MAX;
pub const SIZE: usize = RECEIVING + SECRET_MAX;

pub struct State {
    pub sending: Keys,
    pub receiving: Keys,
    pub update_wanted: bool,
}

/// `state` has SIZE bytes.
pub fn write(state: &mut [u8], sending: &Keys, receiving: &Keys, update_wanted: bool) {
    let suite = sending.secret().suite as u16;
    state[..4].copy_from_slice(&VERSION);
    state[4..6].copy_from_slice(&suite.to_le_bytes());
    state[6..8].copy_from_slice(&[update_wanted.into(), 0]);
    state[8..16].copy_from_slice(&sending.sequence().to_le_bytes());
    state[16..24].copy_from_slice(&receiving.sequence().to_le_bytes());
    state[SENDING..RECEIVING].copy_from_slice(sending.secret().bytes());
    state[RECEIVING..].copy_from_slice(receiving.secret().bytes());
}

pub fn read(state: &[u8]) -> Option<State> {
    if state.len() != SIZE || state[..4] != VERSION || state[6] > 1 || state[7] != 0 {
        return None;
    }
    let suite = Suite::of(u16::from_le_bytes([state[4], state[5]]))?;
    let number = |at: usize| state[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let keys = |secret: &[u8], sequence| Keys::new(Secret::new(suite, secret)?, sequence);
    Some(State {
        sending: keys(&state[SENDING..RECEIVING], number(8)?)?,
        receiving: keys(&state[RECEIVING..], number(16)?)?,
        update_wanted: state[6] == 1,
    })
}
