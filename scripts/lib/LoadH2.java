import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/**
 * What scripts/bench-others does with H2.
 *
 * LoadH2 URL ready | load ROWS | scan | measure ROWS RATE SECONDS. The last prints p50 and p99 in milliseconds, from the
 * moment at which each select should have begun, and how many a second were done.
 */
public class LoadH2 {
    private static final int CONNECTIONS = 4;

    public static void main(String[] words) throws Exception {
        String url = words[0];
        switch (words[1]) {
            case "ready" -> connect(url).close();
            case "load" -> load(url, Integer.parseInt(words[2]));
            case "scan" -> scan(url);
            case "measure" -> measure(url, Integer.parseInt(words[2]), Double.parseDouble(words[3]), Double.parseDouble(words[4]));
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    private static Connection connect(String url) throws Exception {
        return DriverManager.getConnection(url);
    }

    private static void load(String url, int rows) throws Exception {
        try (Connection connection = connect(url); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(1000))");
            statement.execute("INSERT INTO t SELECT x, LPAD(CAST(x AS VARCHAR), 1000, RAWTOHEX(SECURE_RAND(400))) FROM SYSTEM_RANGE(1, " + rows + ")");
            statement.execute("SHUTDOWN");
        }
    }

    private static void scan(String url) throws Exception {
        try (Connection connection = connect(url); Statement statement = connection.createStatement()) {
            statement.execute("SET OPTIMIZE_REUSE_RESULTS 0");
            while (true) {
                statement.executeQuery("SELECT SUM(LENGTH(v)) FROM t").close();
                System.out.println("ended");
            }
        }
    }

    private static void measure(String url, int rows, double rate, double seconds) throws Exception {
        List<Long> times = Collections.synchronizedList(new ArrayList<>());
        long interval = (long) (1e9 * CONNECTIONS / rate);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < CONNECTIONS; number++) {
            Connection connection = connect(url);
            Thread thread = new Thread(() -> select(connection, rows, interval, seconds, times));
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Collections.sort(times);
        double p50 = times.get(times.size() / 2) / 1e6;
        double p99 = times.get((int) (times.size() * 0.99)) / 1e6;
        System.out.printf("%.3f %.3f %.1f%n", p50, p99, times.size() / seconds);
    }

    private static void select(Connection connection, int rows, long interval, double seconds, List<Long> times) {
        Random random = new Random();
        try (PreparedStatement statement = connection.prepareStatement("SELECT v FROM t WHERE id = ?")) {
            long due = System.nanoTime() + (long) (random.nextDouble() * interval);
            long until = System.nanoTime() + (long) (seconds * 1e9);
            while (due < until) {
                long wait = due - System.nanoTime();
                if (wait > 0) {
                    Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
                }
                statement.setInt(1, 1 + random.nextInt(rows));
                try (ResultSet row = statement.executeQuery()) {
                    row.next();
                    row.getString(1);
                }
                times.add(System.nanoTime() - due);
                due += interval;
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
