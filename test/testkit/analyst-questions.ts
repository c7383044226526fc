// What an analyst asks of the tables, in ClickHouse's SQL as far as both engines speak it. Every
// question gives its rows in one order only, so that two engines can be compared.

export interface Question {
  readonly name: string
  readonly sql: string
  readonly params?: Readonly<Record<string, string>>
}

const q = (name: string, sql: string, params?: Question['params']): Question =>
  params === undefined ? { name, sql } : { name, sql, params }

export const questions: readonly Question[] = [
  q('transactions in all', 'SELECT count() AS n FROM transactions'),
  q('the newest blocks', 'SELECT * FROM blocks ORDER BY slot DESC LIMIT 5'),
  q('a page of blocks', 'SELECT slot, tx_count FROM blocks ORDER BY slot LIMIT 10, 5'),
  q(
    'fees by minute',
    `SELECT toStartOfMinute(block_time) AS minute, count() AS txs, sum(fee) AS fees, max(fee) AS top
      FROM transactions GROUP BY minute ORDER BY minute`,
  ),
  q(
    'share of failures by five minutes',
    `SELECT toStartOfFiveMinute(block_time) AS at, countIf(success = 0) AS failed,
      round(countIf(success = 0) / count(), 6) AS share FROM transactions GROUP BY at ORDER BY at`,
  ),
  q(
    'payers that pay most',
    `SELECT fee_payer, count() AS n, sum(fee) AS paid FROM transactions
      GROUP BY fee_payer ORDER BY paid DESC, fee_payer LIMIT 20`,
  ),
  q(
    'how many payers',
    'SELECT uniq(fee_payer) AS u, uniqExact(fee_payer) AS e, count(DISTINCT fee_payer) AS d FROM transactions',
  ),
  q(
    'errors by kind',
    'SELECT err, count() AS n FROM transactions WHERE notEmpty(err) GROUP BY err ORDER BY err',
  ),
  q(
    'fees in the middle',
    `SELECT quantileExact(0.5)(fee) AS p50, quantileExact(0.9)(fee) AS p90,
      quantileExact(0.99)(fee) AS p99 FROM transactions`,
  ),
  q(
    'compute by version',
    `SELECT version, avg(compute_units) AS mean, min(compute_units) AS low, max(compute_units) AS high
      FROM transactions GROUP BY version ORDER BY version`,
  ),
  q(
    'sizes of fees',
    `SELECT multiIf(fee <= 5000, 'base', fee < 100000, 'some', 'much') AS size, count() AS n
      FROM transactions GROUP BY size ORDER BY size`,
  ),
  q(
    'sums under a condition',
    `SELECT sumIf(fee, success = 1) AS good, sumIf(fee, success = 0) AS lost,
      avgIf(compute_units, version = 0) AS mean, minIf(fee, fee > 5000) AS low,
      maxIf(fee, success = 0) AS high FROM transactions`,
  ),
  q(
    'the dearest transaction of each version',
    `SELECT version, argMax(signature, fee) AS dearest, max(fee) AS top FROM transactions
      WHERE fee IN (SELECT max(fee) FROM transactions GROUP BY version) GROUP BY version ORDER BY version`,
  ),
  q(
    'transactions of one payer by parameter',
    `SELECT slot, idx FROM transactions WHERE fee_payer IN
      (SELECT fee_payer FROM transactions WHERE slot = {slot:UInt64} AND idx = {idx:UInt32})
      ORDER BY slot, idx LIMIT {n:UInt32}`,
    { slot: '390000003', idx: '4', n: '25' },
  ),
  q(
    'programs called most',
    `SELECT program, count() AS calls, uniqExact(signature) AS txs FROM instructions
      GROUP BY program ORDER BY calls DESC, program LIMIT 10`,
  ),
  q(
    'inner and outer calls',
    "SELECT if(inner_ix < 0, 'outer', 'inner') AS kind, count() AS n FROM instructions GROUP BY kind ORDER BY kind",
  ),
  q(
    'accounts that instructions touch',
    `SELECT account, count() AS n FROM (SELECT arrayJoin(accounts) AS account FROM instructions)
      GROUP BY account ORDER BY n DESC, account LIMIT 15`,
  ),
  q(
    'instructions with many accounts',
    `SELECT length(accounts) AS n, count() AS c, any(length(accounts)) AS same FROM instructions
      GROUP BY n HAVING n >= 2 ORDER BY n`,
  ),
  q(
    'whether an account is among them',
    `SELECT countIf(has(accounts, {who:String})) AS n FROM instructions`,
    { who: 'nobody' },
  ),
  q(
    'the first account of each program',
    `SELECT program, min(arrayElement(accounts, 1)) AS first FROM instructions
      GROUP BY program ORDER BY program LIMIT 5`,
  ),
  q(
    'lamports beyond what a float holds',
    `SELECT pubkey, lamports, write_version FROM account_updates
      WHERE lamports > 9007199254740993 ORDER BY lamports DESC, write_version LIMIT 20`,
  ),
  q(
    'updates by owner',
    `SELECT owner, uniqExact(pubkey) AS keys, sum(data_len) AS bytes FROM account_updates
      GROUP BY owner ORDER BY bytes DESC, owner LIMIT 10`,
  ),
  q(
    'volume by mint',
    `SELECT mint, count() AS n, sum(amount) AS volume
      FROM token_transfers GROUP BY mint ORDER BY volume DESC, mint LIMIT 10`,
  ),
  q(
    'decimals in use',
    'SELECT decimals, count() AS n, sum(intDiv(amount, 1000000)) AS whole FROM token_transfers GROUP BY decimals ORDER BY decimals',
  ),
  q(
    'transfers with their fees',
    `SELECT t.slot AS slot, t.idx AS idx, t.amount AS amount, x.fee AS fee FROM token_transfers AS t
      INNER JOIN transactions AS x ON t.slot = x.slot AND t.idx = x.idx
      ORDER BY slot, idx LIMIT 20`,
  ),
  q(
    'blocks with no transfer',
    `SELECT count() AS n FROM blocks WHERE slot NOT IN (SELECT slot FROM token_transfers)`,
  ),
  q(
    'tips by outcome',
    `SELECT outcome, reason, count() AS n, sum(lamports) AS paid, max(landed_slot) AS latest
      FROM tips GROUP BY outcome, reason ORDER BY outcome, reason`,
  ),
  q(
    'tips by account',
    'SELECT tip_account, sum(lamports) AS paid FROM tips GROUP BY tip_account ORDER BY paid DESC, tip_account',
  ),
  q(
    'gas by minute',
    `SELECT toStartOfMinute(started_at) AS minute, sum(gas_used) AS gas, max(tx_count) AS txs
      FROM execution_blocks GROUP BY minute ORDER BY minute`,
  ),
  q(
    'transactions per second',
    'SELECT max(tps) AS top, min(tps) AS low, avg(tps) AS mean FROM tps',
  ),
  q(
    'efficiency in bands',
    `SELECT multiIf(parallel_efficiency_pct >= 90, 'excellent', parallel_efficiency_pct >= 70, 'some',
      'much') AS band, count() AS blocks FROM contention GROUP BY band ORDER BY band`,
  ),
  q(
    'the most contended blocks',
    `SELECT block_number, contention_ratio, contended_slot_count, total_unique_slots FROM contention
      ORDER BY contention_ratio DESC, block_number LIMIT 10`,
  ),
  q(
    'contracts contended most often',
    `SELECT address, count() AS times, sum(contended_slots) AS slots, max(contention_score) AS score
      FROM contended_contracts GROUP BY address ORDER BY times DESC, address LIMIT 10`,
  ),
  q(
    'hot slots',
    `SELECT address, max(txn_count) AS txns FROM contended_slots WHERE rank <= 2
      GROUP BY address ORDER BY txns DESC, address LIMIT 10`,
  ),
  q(
    'contracts that go together',
    `SELECT contract_a, contract_b, sum(shared_txn_count) AS shared FROM contract_edges
      GROUP BY contract_a, contract_b ORDER BY shared DESC, contract_a, contract_b LIMIT 10`,
  ),
  q(
    'accesses by kind',
    `SELECT kind, count() AS n, sum(count) AS total, max(error) AS off FROM top_accesses
      GROUP BY kind ORDER BY kind`,
  ),
  q(
    'stages of blocks',
    `SELECT to_stage, count() AS n, round(avg(age_ms), 3) AS mean FROM block_lifecycle
      GROUP BY to_stage ORDER BY to_stage`,
  ),
  q(
    'own queries',
    `SELECT code, count() AS n, sum(rows) AS rows_read, sum(elapsed_ms) AS ms FROM usage
      GROUP BY code ORDER BY code`,
  ),
  q(
    'blocks of an hour',
    `SELECT count() AS n FROM blocks WHERE block_time >= {from:DateTime} AND block_time < {to:DateTime}`,
    { from: '2026-01-05 00:00:00', to: '2026-01-05 00:00:10' },
  ),
  q(
    'times taken apart',
    `SELECT toDate(block_time) AS day, toHour(block_time) AS hour, toYYYYMM(block_time) AS month,
      toUnixTimestamp(max(block_time)) AS newest, dateDiff('second', min(block_time), max(block_time)) AS span
      FROM blocks GROUP BY day, hour, month ORDER BY day, hour`,
  ),
  q(
    'texts taken apart',
    `SELECT substring(signature, 1, 4) AS head, length(signature) AS len, upper(substring(err, 1, 3)) AS kind,
      if(startsWith(err, 'Ins'), 1, 0) AS x FROM transactions WHERE slot = 390000001
      ORDER BY idx LIMIT 10`,
  ),
  q('tables there are', "SELECT name FROM system.tables WHERE database = 'chain' ORDER BY name"),
  q(
    'columns of a table',
    "SELECT name, type, position FROM system.columns WHERE table = 'tips' ORDER BY position",
  ),
  q(
    'a union of counts',
    `SELECT * FROM (SELECT 'tips' AS name, count() AS n FROM tips UNION ALL
      SELECT 'blocks' AS name, count() AS n FROM blocks) ORDER BY name`,
  ),
]
