// Views: queries under a name, for what is asked most. Data only.
// A view is written out wherever a query names it, on both engines, so it reads what the caller may
// read, within its limits. Names of tables have their database: a table that the caller's query
// defines with WITH is not taken for one of them.

export interface View {
  /** ClickHouse's, as both engines answer it. */
  readonly sql: string
  /** Types of its columns by name, in order. */
  readonly columns: Readonly<Record<string, string>>
}

export const views: Readonly<Record<string, View>> = {
  transfers: {
    sql: `SELECT block_time, slot, idx, signature, mint, source, destination, authority, amount,
      decimals, amount / pow(10, decimals) AS ui_amount
    FROM chain.token_transfers`,
    columns: {
      ...{ block_time: 'Nullable(DateTime)', slot: 'UInt64', idx: 'UInt32', signature: 'String' },
      ...{ mint: 'String', source: 'String', destination: 'String', authority: 'String' },
      ...{ amount: 'UInt64', decimals: 'UInt8', ui_amount: 'Float64' },
    },
  },
  balance_changes: {
    sql: `SELECT block_time, slot, idx, pubkey, owner, lamports, change
    FROM (
      SELECT block_time, slot, idx, pubkey, owner, lamports,
        toInt64(lamports) - lagInFrame(toNullable(toInt64(lamports))) OVER (
          PARTITION BY pubkey ORDER BY slot, write_version
          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS change
      FROM chain.account_updates)
    WHERE change != 0 OR change IS NULL`,
    columns: {
      ...{ block_time: 'Nullable(DateTime)', slot: 'UInt64', idx: 'UInt32', pubkey: 'String' },
      ...{ owner: 'String', lamports: 'UInt64', change: 'Nullable(Int64)' },
    },
  },
  fees_by_payer: {
    sql: `SELECT toDate(block_time) AS day, fee_payer, sum(fee) AS fees, count() AS transactions,
      countIf(success = 0) AS failed, sum(compute_units) AS compute_units_total
    FROM chain.transactions
    GROUP BY day, fee_payer`,
    columns: {
      ...{ day: 'Date', fee_payer: 'String', fees: 'UInt64', transactions: 'UInt64' },
      ...{ failed: 'UInt64', compute_units_total: 'UInt64' },
    },
  },
  tps_by_minute: {
    sql: `SELECT toStartOfMinute(at) AS minute, avg(tps) AS tps_avg, min(tps) AS tps_min,
      max(tps) AS tps_max, count() AS blocks
    FROM chain.tps
    WHERE at IS NOT NULL
    GROUP BY minute`,
    columns: {
      ...{ minute: 'Nullable(DateTime)', tps_avg: 'Float64', tps_min: 'UInt64' },
      ...{ tps_max: 'UInt64', blocks: 'UInt64' },
    },
  },
  contention_by_hour: {
    sql: `SELECT toStartOfHour(at) AS hour, avg(contention_ratio) AS contention_ratio_avg,
      avgIf(parallel_efficiency_pct, total_txn_count > 0) AS parallel_efficiency_pct_avg,
      sum(contended_slot_count) AS contended_slots_total,
      max(critical_path_txn_count) AS critical_path_max,
      count() AS blocks, sum(total_txn_count) AS transactions
    FROM chain.contention
    WHERE at IS NOT NULL
    GROUP BY hour`,
    columns: {
      ...{ hour: 'Nullable(DateTime)', contention_ratio_avg: 'Float64' },
      ...{ parallel_efficiency_pct_avg: 'Float64', contended_slots_total: 'UInt64' },
      ...{ critical_path_max: 'UInt64', blocks: 'UInt64', transactions: 'UInt64' },
    },
  },
}
