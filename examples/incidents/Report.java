// SPDX-License-Identifier: LGPL-2.1-or-later
// A report that sums up a table in one long loop. The collector of garbage waits for it, and all wait for that.
public class Report {
    static int[] table = new int[1 << 20];
    static volatile int total;

    static int sumOfTable(int rounds) {
        int sum = 0;
        for (int i = 0; i < rounds; i++)
            sum = sum * 31 + table[i & (table.length - 1)];
        return sum;
    }

    static void report() {
        while (true)
            total += sumOfTable(Integer.MAX_VALUE);
    }

    public static void main(String[] arguments) {
        for (int i = 0; i < 20000; i++)
            total += sumOfTable(1000);
        Thread report = new Thread(Report::report, "report");
        report.setDaemon(true);
        report.start();
        System.out.println("ready " + ProcessHandle.current().pid());
        while (true)
            System.gc();
    }
}
