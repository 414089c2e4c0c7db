//! TLS 1.3 of either side, for C: include/outboard_tls.h says what each function does.
#![no_std]
extern crate alloc;

mod client;
mod identity;
mod keys;
mod memory;
mod record;
mod server;
mod shake;
mod state;
mod trust;

use alloc::alloc::{dealloc, Layout};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::{ptr, slice};

use identity::Identity;
use record::{Keys, Opened, ALERT, DATA, HANDSHAKE, HEADER, OVERHEAD, TRAILER};
use server::{Peer, Server};
use shake::Handshake;

/// Numbers of `enum outboard_tls_failure`; an alert's are 256 and its own.
#[derive(Clone, Copy)]
pub enum Failure {
    Closed,
    Damaged,
    NotTls,
    Old,
    Expired,
    NotValidYet,
    WrongName,
    UnknownIssuer,
    BadPeerCertificate,
    BadHost,
    BadAuthorities,
    BadCertificate,
    BadKey,
    BadPair,
    Other,
    Version1,
    BadState,
    Alert(u8),
}

impl Failure {
    fn number(self) -> i32 {
        match self {
            Failure::Closed => 1,
            Failure::Damaged => 2,
            Failure::NotTls => 3,
            Failure::Old => 4,
            Failure::Expired => 5,
            Failure::NotValidYet => 6,
            Failure::WrongName => 7,
            Failure::UnknownIssuer => 8,
            Failure::BadPeerCertificate => 9,
            Failure::BadHost => 10,
            Failure::BadAuthorities => 11,
            Failure::BadCertificate => 12,
            Failure::BadKey => 13,
            Failure::BadPair => 14,
            Failure::Other => 15,
            Failure::Version1 => 16,
            Failure::BadState => 17,
            Failure::Alert(number) => 256 + i32::from(number),
        }
    }
}

/// One direction is one thread's at a time, and both may be used at once.
pub struct Tls {
    handshake: Option<Handshake>,
    /// What a server's client shows, where it is asked.
    peer: Option<Arc<Peer>>,
    sending: UnsafeCell<Option<Keys>>,
    receiving: UnsafeCell<Option<Keys>>,
    /// How many records without content have come since one with some.
    idle: UnsafeCell<u32>,
    update_wanted: AtomicBool,
}

/// Keys of AES-GCM are good for 2^24.5 full records (RFC 8446, 5.5).
const RECORDS_MAX: u64 = 1 << 23;

impl Tls {
    fn begin(handshake: Handshake, peer: Option<Arc<Peer>>) -> Tls {
        Tls {
            handshake: Some(handshake),
            peer,
            sending: UnsafeCell::new(None),
            receiving: UnsafeCell::new(None),
            idle: UnsafeCell::new(0),
            update_wanted: AtomicBool::new(false),
        }
    }
}

#[repr(C)]
pub struct Bytes {
    at: *const u8,
    size: usize,
}

impl Bytes {
    unsafe fn get(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        slice::from_raw_parts(self.at, self.size)
    }
}

#[repr(C)]
pub struct Client {
    host: Bytes,
    authorities: Bytes,
    certificate: Bytes,
    key: Bytes,
    now: u64,
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_begin(client: &Client, tls: &mut *mut Tls) -> i32 {
    let (certificate, key) = (client.certificate.get(), client.key.get());
    let identity = (!certificate.is_empty()).then_some(Identity { certificate, key });
    match client::begin(client.host.get(), client.authorities.get(), identity, client.now) {
        Ok(handshake) => {
            *tls = Box::into_raw(Box::new(Tls::begin(handshake, None)));
            0
        }
        Err(failure) => failure.number(),
    }
}

#[repr(C)]
pub struct ServerFiles {
    certificate: Bytes,
    key: Bytes,
    authorities: Bytes,
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_serve(files: &ServerFiles, server: &mut *mut Server) -> i32 {
    let identity = Identity { certificate: files.certificate.get(), key: files.key.get() };
    let authorities = files.authorities.get();
    match Server::new(&identity, (!authorities.is_empty()).then_some(authorities)) {
        Ok(made) => {
            *server = Box::into_raw(Box::new(made));
            0
        }
        Err(failure) => failure.number(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_server_end(server: *mut Server) {
    if !server.is_null() {
        drop(Box::from_raw(server));
    }
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_accept(server: &Server, now: u64, tls: &mut *mut Tls) -> i32 {
    match server.accept(now) {
        Ok((handshake, peer)) => {
            *tls = Box::into_raw(Box::new(Tls::begin(handshake, peer)));
            0
        }
        Err(failure) => failure.number(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_shown(tls: &Tls, certificate: &mut Bytes) -> i32 {
    *certificate = Bytes { at: ptr::null(), size: 0 };
    let Some(shown) = tls.peer.as_ref().and_then(|peer| peer.shown()) else { return 0 };
    *certificate = Bytes { at: shown.certificate.as_ptr(), size: shown.certificate.len() };
    shown.judgement.map_or(0, Failure::number)
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_end(tls: *mut Tls) {
    if tls.is_null() {
        return;
    }
    ptr::drop_in_place(tls);
    // Also what the ciphers have made of the keys.
    let size = core::mem::size_of::<Tls>();
    keys::forget(slice::from_raw_parts_mut(tls.cast::<u8>(), size));
    dealloc(tls.cast(), Layout::new::<Tls>());
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_save(tls: &Tls, state: *mut u8) -> i32 {
    let (Some(sending), Some(receiving)) = (&*tls.sending.get(), &*tls.receiving.get()) else {
        return Failure::BadState.number();
    };
    let update_wanted = tls.update_wanted.load(Ordering::Relaxed);
    let state = slice::from_raw_parts_mut(state, state::SIZE);
    state::write(state, sending, receiving, update_wanted);
    0
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_restore(state: *const u8, size: usize, tls: &mut *mut Tls) -> i32 {
    let Some(read) = state::read(slice::from_raw_parts(state, size)) else {
        return Failure::BadState.number();
    };
    *tls = Box::into_raw(Box::new(Tls {
        handshake: None,
        peer: None,
        sending: UnsafeCell::new(Some(read.sending)),
        receiving: UnsafeCell::new(Some(read.receiving)),
        idle: UnsafeCell::new(0),
        update_wanted: AtomicBool::new(read.update_wanted),
    }));
    0
}

#[repr(C)]
pub struct Shake {
    used: usize,
    made: usize,
    done: bool,
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_shake(
    tls: &mut Tls,
    incoming: *mut u8,
    size: usize,
    outgoing: *mut u8,
    room: usize,
    shake: &mut Shake,
) -> i32 {
    *shake = Shake { used: 0, made: 0, done: false };
    let Some(mut handshake) = tls.handshake.take() else { return Failure::Other.number() };
    let incoming = slice::from_raw_parts_mut(incoming, size);
    let outgoing = slice::from_raw_parts_mut(outgoing, room);
    let step = handshake.step(incoming, outgoing);
    (shake.used, shake.made) = (step.used, step.made);
    match step.done {
        Err(failure) => return failure.number(),
        Ok(false) => {
            tls.handshake = Some(handshake);
            return 0;
        }
        Ok(true) => shake.done = true,
    }
    let Some((sending, receiving)) = handshake.end() else { return Failure::Other.number() };
    *tls.sending.get_mut() = Some(sending);
    *tls.receiving.get_mut() = Some(receiving);
    0
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_seal(tls: &Tls, record: *mut u8, size: usize) -> usize {
    let Some(keys) = &mut *tls.sending.get() else { return 0 };
    let record = slice::from_raw_parts_mut(record, size + OVERHEAD);
    keys.seal(DATA, record).map_or(0, |()| size + OVERHEAD)
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_seal_apart(
    tls: &Tls,
    header: *mut u8,
    content: *mut u8,
    size: usize,
    trailer: *mut u8,
) -> bool {
    let Some(keys) = &mut *tls.sending.get() else { return false };
    let header = slice::from_raw_parts_mut(header, HEADER);
    let content = slice::from_raw_parts_mut(content, size + 1);
    let trailer = slice::from_raw_parts_mut(trailer, TRAILER);
    keys.seal_apart(DATA, header, content, trailer).is_some()
}

/// handshake type 24, of one byte: whether the other side is asked to do the same.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const KEY_UPDATE_WANTED: [u8; 5] = [24, 0, 0, 1, 1];

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_update(tls: &Tls, record: *mut u8) -> usize {
    let Some(keys) = &mut *tls.sending.get() else { return 0 };
    let wanted = tls.update_wanted.swap(false, Ordering::Relaxed);
    if !wanted && keys.sequence() < RECORDS_MAX {
        return 0;
    }
    let size = KEY_UPDATE.len() + OVERHEAD;
    let record = slice::from_raw_parts_mut(record, size);
    record[HEADER..HEADER + KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
    if keys.seal(HANDSHAKE, record).is_none() {
        return 0;
    }
    // Without keys nothing is sent any more.
    let next = keys.next();
    *tls.sending.get() = next;
    size
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_close(tls: &Tls, record: *mut u8) -> usize {
    let Some(keys) = &mut *tls.sending.get() else { return 0 };
    // warning, close_notify
    let alert = [1, 0];
    let size = alert.len() + OVERHEAD;
    let record = slice::from_raw_parts_mut(record, size);
    record[HEADER..HEADER + alert.len()].copy_from_slice(&alert);
    let sealed = keys.seal(ALERT, record);
    *tls.sending.get() = None;
    sealed.map_or(0, |()| size)
}

#[repr(C)]
pub struct Content {
    used: usize,
    at: *const u8,
    size: usize,
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_open(
    tls: &Tls,
    bytes: *mut u8,
    size: usize,
    content: &mut Content,
) -> i32 {
    *content = Content { used: 0, at: bytes, size: 0 };
    let Some(keys) = &mut *tls.receiving.get() else { return Failure::Damaged.number() };
    let bytes = slice::from_raw_parts_mut(bytes, size);
    match keys.open(bytes) {
        Opened::Part => 0,
        Opened::Damaged => {
            *tls.receiving.get() = None;
            Failure::Damaged.number()
        }
        Opened::Record { size, of, end } => {
            content.used = size;
            take(tls, of, &bytes[HEADER..end], content)
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_open_apart(
    tls: &Tls,
    header: *const u8,
    sealed: *mut u8,
    size: usize,
    trailer: *const u8,
    content: &mut Content,
) -> i32 {
    *content = Content { used: 0, at: sealed, size: 0 };
    let Some(keys) = &mut *tls.receiving.get() else { return Failure::Damaged.number() };
    let header = slice::from_raw_parts(header, HEADER);
    let trailer = slice::from_raw_parts(trailer, TRAILER);
    let sealed = slice::from_raw_parts_mut(sealed, size + 1);
    match keys.open_apart(header, sealed, trailer) {
        None => {
            *tls.receiving.get() = None;
            Failure::Damaged.number()
        }
        Some((of, end)) => {
            content.used = size + OVERHEAD;
            take(tls, of, &sealed[..end], content)
        }
    }
}

/// What a record has brought: data for the caller, or what is dealt with here.
unsafe fn take(tls: &Tls, of: u8, inside: &[u8], content: &mut Content) -> i32 {
    let idle = tls.idle.get();
    *idle = if of == DATA && !inside.is_empty() { 0 } else { *idle + 1 };
    if *idle > IDLE_MAX {
        *tls.receiving.get() = None;
        return Failure::Damaged.number();
    }
    match (of, inside) {
        (DATA, _) => {
            (content.at, content.size) = (inside.as_ptr(), inside.len());
            0
        }
        (ALERT, [_, 0]) => Failure::Closed.number(),
        (ALERT, [_, alert]) => Failure::Alert(*alert).number(),
        (HANDSHAKE, _) if take_messages(tls, inside) => 0,
        _ => {
            *tls.receiving.get() = None;
            Failure::Damaged.number()
        }
    }
}

/// Records without content, one after the other: a change of keys costs who opens it forty times what content of that
/// size does, and nobody has reason to send many.
const IDLE_MAX: u32 = 32;

/// Tickets, which are let be, and changes of keys, each of which is the last of its record. False: anything else.
unsafe fn take_messages(tls: &Tls, mut messages: &[u8]) -> bool {
    const NEW_SESSION_TICKET: u8 = 4;
    while let [kind, high, middle, low, rest @ ..] = messages {
        if messages == KEY_UPDATE || messages == KEY_UPDATE_WANTED {
            let next = (*tls.receiving.get()).as_ref().and_then(Keys::next);
            *tls.receiving.get() = next;
            tls.update_wanted.fetch_or(messages == KEY_UPDATE_WANTED, Ordering::Relaxed);
            return true;
        }
        let size = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        if *kind != NEW_SESSION_TICKET || size > rest.len() {
            return false;
        }
        messages = &rest[size..];
    }
    messages.is_empty()
}

#[no_mangle]
pub unsafe extern "C" fn outboard_tls_has_record(bytes: *const u8, size: usize) -> bool {
    match Keys::measure(slice::from_raw_parts(bytes, size)) {
        // Opening says what is wrong.
        None => true,
        Some(record) => record != 0 && record <= size,
    }
}
