// The worker's view of its targets: what it counts, whom it believes, what it tells.
import { expect, test } from 'vitest'
import { parseAddress } from '../../../../src/base/cidr.ts'
import { Board } from '../../../../src/products/shredstream/board.ts'
import { TargetBook, type WorkerNews } from '../../../../src/products/shredstream/book.ts'
import {
  challengeOf,
  type Target,
  TargetTable,
} from '../../../../src/products/shredstream/targets.ts'

const target = (row: number, kind: Target['kind']): Target => ({
  row,
  kind,
  generation: row + 10,
  address: parseAddress(row % 2 === 0 ? '10.0.0.7' : '2001:db8::7')!,
  port: 5000 + row,
  challenges: 1,
  nonce: [1, 2 ** 32 - 1, 0, row],
})

function open(...targets: Target[]) {
  const board = new Board()
  const table = new TargetTable()
  const news: WorkerNews[] = []
  const book = new TargetBook(table, board, (one) => news.push(one))
  table.write(targets)
  return { board, table, book, news }
}

test('the table is read as it was written, by a version that only grows', () => {
  const targets = [target(0, 'serve'), target(3, 'challenge'), target(255, 'serve')]
  const { table, book } = open(...targets)
  const plain = ({ address: { family, words }, ...rest }: Target) => ({ ...rest, family, words })
  expect(table.read()!.map(plain)).toEqual(targets.map(plain))
  expect(book.isStale).toBe(true)
  expect(book.refresh()).toBe(true)
  expect(book.refresh()).toBe(false)
  expect([book.serving.length, book.challenged.length]).toEqual([2, 1])
})

test('only its own challenge from its own address proves a target', () => {
  const challenged = target(2, 'challenge')
  const { book, news } = open(challenged)
  book.refresh()
  expect(book.dueChallenges().length).toBe(1)
  expect(book.dueChallenges().length).toBe(0)
  const { address, port } = challenged
  const bytes = challengeOf(challenged)
  book.heard(address, port + 1, bytes)
  book.heard(parseAddress('10.0.0.8')!, port, bytes)
  book.heard(address, port, Buffer.concat([bytes, Buffer.alloc(1)]))
  book.heard(address, port, challengeOf({ nonce: [0, 0, 0, 0] }))
  expect(news).toEqual([])
  book.heard(address, port, bytes)
  expect(news).toEqual([{ kind: 'echo', row: 2, generation: 12 }])
})

test('failed sends are left out of what counts as sent, and no count ever falls', () => {
  const { board, book } = open(target(0, 'serve'), target(2, 'serve'))
  book.refresh()
  book.failed(2, 101, 5)
  expect(board.totals.get(0, 'sent')).toBe(0)
  book.countSent([0, 2], 3, 3600, 1)
  expect(board.totals.get(0, 'sent')).toBe(3)
  book.countSent([0, 2], 3, 3600, 2)
  expect(board.totals.get(0, 'sent')).toBe(7)
  expect(board.targets.row(2)).toMatchObject({ packets: 1, droppedError: 5, lastErrno: 101 })
  expect(board.targets.row(0)).toMatchObject({ packets: 6, bytes: 7200, lastSentMs: 2 })
})

test('errors make a closed port only when there are several over a second', () => {
  const { book, news } = open(target(0, 'serve'))
  book.refresh()
  const refuse = (times: number, nowMs: number) => {
    for (let round = 0; round < times; round += 1) book.refused(0)
    book.report(nowMs)
  }
  // Many at once, and few over a long time, are no closed port.
  refuse(100, 20_000)
  refuse(1, 20_999)
  expect(news).toEqual([])
  for (let nowMs = 40_000; nowMs < 80_000; nowMs += 4000) refuse(1, nowMs)
  expect(news).toEqual([])
  for (let nowMs = 100_000; nowMs <= 101_000; nowMs += 250) refuse(1, nowMs)
  expect(news).toEqual([{ kind: 'refused', row: 0, generation: 10 }])
  refuse(1, 101_001)
  expect(news.length).toBe(1)
})

test('a paused target is sent one probe a second; one without an error shows that it is alive', () => {
  const { book, news } = open(target(0, 'probe'), target(2, 'serve'))
  book.refresh()
  expect(book.serving.map(({ row }) => row)).toEqual([2])
  let probes = 0
  const runTo = (fromMs: number, toMs: number, isClosed: boolean) => {
    for (let nowMs = fromMs; nowMs < toMs; nowMs += 10) {
      const due = book.dueProbes(nowMs)
      probes += due.length
      if (isClosed && due.length > 0) book.refused(0)
      book.report(nowMs)
    }
  }
  runTo(0, 10_000, true)
  expect(probes).toBe(10)
  expect(news).toEqual([])
  runTo(10_000, 12_050, false)
  expect(news).toEqual([{ kind: 'alive', row: 0, generation: 10 }])
})
