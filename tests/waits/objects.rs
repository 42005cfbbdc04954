// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads that wait for what Rust's library has, and say so as truth.h tells. Its locks keep no owner:
// "hint" is the thread whose stack has the guard.
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::time::Duration;
use std::{fs, process, thread};

static LINES: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn own_tid() -> u32 {
    let path = fs::read_link("/proc/thread-self").unwrap();
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn truth(row: &str, rest: &str) {
    let tid = own_tid();
    let line = format!("{{'row':'rust.{row}','pid':{},'tid':{tid},{rest}}}", process::id()).replace('\'', "\"");
    LINES.lock().unwrap().push((tid, line));
    COUNT.fetch_add(1, Ordering::SeqCst);
}

fn rest() -> ! {
    truth("holder", "'kind':'sleep'");
    loop {
        thread::sleep(Duration::from_secs(3000));
    }
}

/// Starts a thread, and returns its tid when it has said its truth.
fn start(act: impl FnOnce() + Send + 'static) -> u32 {
    let before = COUNT.load(Ordering::SeqCst);
    thread::spawn(act);
    while COUNT.load(Ordering::SeqCst) == before {
        thread::yield_now();
    }
    LINES.lock().unwrap().last().unwrap().0
}

fn locks() {
    let mutex = Arc::new(Mutex::new(1));
    let table = Arc::new(RwLock::new(1));
    let copy = mutex.clone();
    let owner = start(move || {
        let _guard = copy.lock().unwrap();
        rest()
    });
    start(move || {
        truth("mutex", &format!("'kind':'mutex','owner':0,'hint':{owner}"));
        drop(mutex.lock());
    });
    let (copy, reader) = (table.clone(), table.clone());
    let writer = start(move || {
        let _guard = copy.write().unwrap();
        rest()
    });
    start(move || {
        truth("rwlock.read", &format!("'kind':'rwlock','mode':'read','owner':0,'hint':{writer}"));
        drop(reader.read());
    });
    start(move || {
        truth("rwlock.write", &format!("'kind':'rwlock','mode':'write','owner':0,'hint':{writer}"));
        drop(table.write());
    });
}

fn others() {
    static ONCE: Once = Once::new();
    start(|| ONCE.call_once(|| rest()));
    start(|| {
        truth("once", "'kind':'once','owner':0");
        ONCE.call_once(|| ());
    });
    start(|| {
        let pair = (Mutex::new(false), Condvar::new());
        let guard = pair.0.lock().unwrap();
        truth("condvar", "'kind':'condition','owner':0");
        drop(pair.1.wait(guard));
    });
    start(|| {
        let (_sender, receiver) = mpsc::channel::<i32>();
        truth("channel", "'kind':['channel','park'],'owner':0");
        receiver.recv().unwrap();
    });
    start(|| {
        truth("park", "'kind':'park','owner':0");
        thread::park();
    });
    start(|| {
        truth("park.timed", "'kind':'park','owner':0,'timed':true,'most_s':3000");
        thread::park_timeout(Duration::from_secs(3000));
    });
    let barrier = Arc::new(Barrier::new(2));
    start(move || {
        truth("barrier", "'kind':['condition','barrier'],'owner':0");
        barrier.wait();
    });
    start(|| {
        let (sender, receiver) = mpsc::channel();
        let idle = thread::spawn(move || {
            sender.send(own_tid()).unwrap();
            rest()
        });
        let tid = receiver.recv().unwrap();
        truth("join", &format!("'kind':'thread','owner':{tid}"));
        let _ = idle.join();
    });
}

fn main() {
    locks();
    others();
    while COUNT.load(Ordering::SeqCst) < 14 {
        thread::yield_now();
    }
    let lines = LINES.lock().unwrap().clone();
    for (tid, _) in &lines {
        let path = format!("/proc/self/task/{tid}/syscall");
        while fs::read_to_string(&path).unwrap_or_default().starts_with("running") {
            thread::yield_now();
        }
    }
    println!("ready {} truth={}", process::id(), lines.len());
    for (_, line) in &lines {
        println!("{line}");
    }
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
