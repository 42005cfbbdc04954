// SPDX-License-Identifier: LGPL-2.1-or-later
// 200 threads at a known depth, asleep.
public class Sleepers {
    static void f(int n) throws Exception { if (n > 0) f(n - 1); else Thread.sleep(3600000); }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 200; i++) {
            Thread t = new Thread(() -> { try { f(10); } catch (Exception e) { } });
            t.setDaemon(true);
            t.start();
        }
        Thread.sleep(3600000);
    }
}
