//! A handshake of either side, by rustls: bytes in, bytes out; whoever calls owns the socket.
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::UnsafeCell;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::UnixTime;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::time_provider::TimeProvider;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, Error, KeyLog};

use crate::keys::{Secret, Suite, SECRET_MAX};
use crate::record::{Keys, HEADER, SEALED_MAX};
use crate::Failure;

/// What both sides do it with. Of the suites the fastest comes first: the longer key costs a third more.
pub fn provider() -> Arc<CryptoProvider> {
    let cipher_suites =
        alloc::vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

/// The time at which the connection is made.
#[derive(Debug)]
pub struct Now(UnixTime);
impl Now {
    /// In seconds since 1970.
    pub fn new(seconds: u64) -> Arc<Now> {
        Arc::new(Now(UnixTime::since_unix_epoch(core::time::Duration::from_secs(seconds))))
    }
}
impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// The secrets of what follows a handshake, as they become known.
pub struct Heard(UnsafeCell<[[u8; SECRET_MAX]; 2]>);
/// A connection, and what it knows, is one thread's while hands are shaken.
unsafe impl Send for Heard {}
unsafe impl Sync for Heard {}
impl core::fmt::Debug for Heard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("secrets")
    }
}
impl Drop for Heard {
    fn drop(&mut self) {
        self.0.get_mut().iter_mut().for_each(|secret| crate::keys::forget(secret));
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Heard {
    pub fn new() -> Arc<Heard> {
        Arc::new(Heard(UnsafeCell::new([[0; SECRET_MAX]; 2])))
    }
    fn which(label: &str) -> Option<usize> {
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => Some(CLIENT),
            "SERVER_TRAFFIC_SECRET_0" => Some(SERVER),
            _ => None,
        }
    }
    fn keys(&self, which: usize, suite: Suite, sequence: u64) -> Option<Keys> {
        let secret = unsafe { &(*self.0.get())[which] };
        Keys::new(Secret::new(suite, secret)?, sequence)
    }
}

impl KeyLog for Heard {
    fn will_log(&self, label: &str) -> bool {
        Heard::which(label).is_some()
    }
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let Some(which) = Heard::which(label) else { return };
        let place = unsafe { &mut (*self.0.get())[which] };
        if let Some(place) = place.get_mut(..secret.len()) {
            place.copy_from_slice(secret);
        }
    }
}

trait Side {
    type Data;
    fn is_handshaking(&self) -> bool;
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}
impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(bytes)
    }
}
impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(bytes)
    }
}

pub enum Connection {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

pub struct Handshake {
    connection: Connection,
    heard: Arc<Heard>,
    /// What rustls has seen of that which it has not used up yet.
    seen: usize,
}

pub struct Step {
    /// Of `incoming`, from its start.
    pub used: usize,
    /// Of `outgoing`, to be sent, also where it has failed: the other side is told why.
    pub made: usize,
    /// Whether it is done: what is left of `incoming` are records under the connection's keys.
    pub done: Result<bool, Failure>,
}

/// How long the record at the start is, if it is all there; 0: not yet. What is none is all of it, for rustls to say so.
fn whole_record(bytes: &[u8]) -> usize {
    let [kind, version, _, high, low, ..] = bytes else { return 0 };
    let sealed = usize::from(u16::from_be_bytes([*high, *low]));
    if !(20..=24).contains(kind) || *version != 3 || sealed > SEALED_MAX {
        return bytes.len();
    }
    if bytes.len() < HEADER + sealed {
        0
    } else {
        HEADER + sealed
    }
}

impl Handshake {
    pub fn new(connection: Connection, heard: Arc<Heard>) -> Handshake {
        Handshake { connection, heard, seen: 0 }
    }

    /// Goes on with what has come. It wants `outgoing` of 16 KiB and the size of the own certificates.
    pub fn step(&mut self, incoming: &mut [u8], outgoing: &mut [u8]) -> Step {
        match &mut self.connection {
            Connection::Client(client) => step(&mut **client, &mut self.seen, incoming, outgoing),
            Connection::Server(server) => step(&mut **server, &mut self.seen, incoming, outgoing),
        }
    }

    /// The keys, of sending and of receiving.
    pub fn end(self) -> Option<(Keys, Keys)> {
        let heard = self.heard;
        let (suite, sent, received, ours, theirs) = match self.connection {
            Connection::Client(client) => {
                let suite = client.negotiated_cipher_suite()?;
                let (secrets, _) = client.dangerous_into_kernel_connection().ok()?;
                (suite, secrets.tx.0, secrets.rx.0, CLIENT, SERVER)
            }
            Connection::Server(server) => {
                let suite = server.negotiated_cipher_suite()?;
                let (secrets, _) = server.dangerous_into_kernel_connection().ok()?;
                (suite, secrets.tx.0, secrets.rx.0, SERVER, CLIENT)
            }
        };
        let suite = Suite::of(u16::from(suite.suite()))?;
        Some((heard.keys(ours, suite, sent)?, heard.keys(theirs, suite, received)?))
    }
}

fn step<S: Side>(side: &mut S, seen: &mut usize, incoming: &mut [u8], outgoing: &mut [u8]) -> Step {
    let (mut used, mut made) = (0, 0);
    let mut failed = None;
    loop {
        // What follows the handshake is not for rustls any more, nor anything after a failure. It gets one record
        // after the other: the last one of a handshake may have those that follow right behind it. What it has seen it
        // always gets again, as it may know of messages in there.
        let over = failed.is_some() || !side.is_handshaking();
        let there = (*seen).min(incoming.len() - used);
        let UnbufferedStatus { discard, state } = side.process(&mut incoming[used..used + there]);
        used += discard;
        *seen = there - discard.min(there);
        let end = match state {
            Ok(ConnectionState::EncodeTlsData(mut encode)) => match encode.encode(&mut outgoing[made..]) {
                Ok(size) => {
                    made += size;
                    None
                }
                Err(EncodeError::InsufficientSize(_)) => Some(Err(Failure::BadCertificate)),
                Err(EncodeError::AlreadyEncoded) => Some(Err(Failure::Other)),
            },
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                transmit.done();
                None
            }
            Ok(ConnectionState::BlockedHandshake) => {
                let more = if over { 0 } else { whole_record(&incoming[used + *seen..]) };
                *seen += more;
                if more == 0 {
                    Some(Ok(false))
                } else {
                    None
                }
            }
            Ok(ConnectionState::WriteTraffic(_)) => Some(Ok(true)),
            Ok(_) => Some(Err(Failure::Closed)),
            Err(_) if failed.is_some() => Some(Ok(false)),
            // Once more, for the alert.
            Err(error) => {
                failed = Some(failure_of(&error));
                None
            }
        };
        if let Some(done) = end {
            let done = failed.map_or(done, Err);
            return Step { used, made, done };
        }
    }
}

pub fn failure_of(error: &Error) -> Failure {
    match error {
        Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Failure::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Failure::NotValidYet
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Failure::WrongName
            }
            CertificateError::UnknownIssuer => Failure::UnknownIssuer,
            _ => Failure::BadPeerCertificate,
        },
        Error::PeerIncompatible(_) | Error::AlertReceived(AlertDescription::ProtocolVersion) => Failure::Old,
        Error::AlertReceived(alert) => Failure::Alert(u8::from(*alert)),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => Failure::NotTls,
        Error::DecryptError => Failure::Damaged,
        _ => Failure::Other,
    }
}
