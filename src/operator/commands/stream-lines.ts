// Renders frames of the metrics stream as lines for a terminal.
import {
  type ContentionData,
  efficiencyMeanings,
  type Frame,
  type Kind,
  type Lifecycle,
  type TopAccesses,
  verdictOf,
} from '../../client/client.ts'

/** Topic names of the command and their frame kinds. */
export const topics: Readonly<Record<string, Kind>> = {
  tps: 'TPS',
  contention: 'ContentionData',
  top: 'TopAccesses',
  lifecycle: 'Lifecycle',
}

const topRows = 5

/** A frame with its line break: as on the wire, or as one line; TopAccesses takes several. */
export function frameText(frame: Frame, isJson: boolean): string {
  if (!isJson) return `${lineOf(frame)}\n`
  return `${JSON.stringify({ seq: frame.seq, [frame.kind]: frame.payload })}\n`
}

export function lineOf(frame: Frame): string {
  switch (frame.kind) {
    case 'TPS':
      return `seq ${frame.seq}  tps ${frame.payload}`
    case 'ContentionData':
      return contentionLine(frame.payload)
    case 'TopAccesses':
      return topLines(frame.seq, frame.payload)
    case 'Lifecycle':
      return lifecycleLine(frame.payload)
    case 'Gap':
      return `gap: source events ${frame.payload.from} to ${frame.payload.to} are lost`
  }
}

function contentionLine(data: ContentionData): string {
  const { contention_ratio: ratio, parallel_efficiency_pct: efficiency } = data
  const parts = [
    `block ${data.block_number}`,
    `txns ${data.total_txn_count}`,
    `slots ${data.total_unique_slots}`,
    `contended ${data.contended_slot_count} (${(ratio * 100).toFixed(1)} %)`,
    `critical path ${data.critical_path_txn_count}`,
    `wall ${(data.block_wall_time_ns / 1e6).toFixed(1)} ms`,
    `efficiency ${efficiency.toFixed(1)} %`,
    verdictText(data),
  ]
  return parts.join('  ')
}

/** Without transactions the figure is 0 and has no meaning; a small block cannot be parallel. */
function verdictText(data: ContentionData): string {
  if (data.total_txn_count === 0) return 'no transactions'
  const verdict = verdictOf(data)
  return verdict === null ? 'too little contention to judge' : efficiencyMeanings[verdict]
}

function lifecycleLine(move: Lifecycle): string {
  const from = move.from_stage === undefined ? '' : `${move.from_stage} -> `
  const inStage = move.time_in_previous_stage_ms
  const parts = [
    `block ${move.block_number}`,
    `${from}${move.to_stage}`,
    ...(inStage === undefined ? [] : [`after ${inStage.toFixed(1)} ms`]),
    `age ${move.block_age_ms.toFixed(1)} ms`,
    `txns ${move.txn_count}`,
    move.block_hash,
  ]
  return parts.join('  ')
}

function topLines(seq: number, top: TopAccesses): string {
  const rows = [
    ...top.account.slice(0, topRows).map(({ key, count }) => `  account  ${count}  ${key}`),
    ...top.storage
      .slice(0, topRows)
      .map(({ key, count }) => `  storage  ${count}  ${key.join(' ')}`),
  ]
  return [`seq ${seq}  most accessed`, ...rows].join('\n')
}
