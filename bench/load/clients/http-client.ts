// The load client in JavaScript, for machines without a compiler. Thread: a process of its own.

import { connect } from 'node:net'
import { Latencies } from '../../../src/loadtest/latencies.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { latencyUsOf } from '../../lib/bench.ts'
import type { HttpLoad, LoadAnswer } from '../../lib/http-load.ts'

serveBench({ load })

async function load(asked: HttpLoad): Promise<LoadAnswer> {
  const histogram = new Latencies()
  let wrong = 0
  let requests = 0
  let isOver = false
  const began = performance.now()
  const connections = Array.from(
    { length: asked.connections },
    () =>
      new Promise<void>((resolve, reject) => {
        const socket = connect(asked.port, asked.host)
        let text = ''
        let sentMs = 0
        const send = () => {
          text = ''
          sentMs = performance.now()
          requests += 1
          socket.write(asked.request.replace('########', String(requests).padStart(8, '0')))
        }
        socket.once('connect', send)
        socket.once('error', reject)
        socket.on('data', (data) => {
          text += data.toString('latin1')
          if (!isWhole(text)) return
          histogram.record(performance.now() - sentMs)
          if (!text.includes(asked.expected)) wrong += 1
          if (!isOver) return send()
          socket.destroy()
          resolve()
        })
      }),
  )
  setTimeout(() => {
    isOver = true
  }, asked.seconds * 1000)
  await Promise.all(connections)
  const took = (performance.now() - began) / 1000
  const { count: answers } = histogram
  return { ops: answers / took, ...latencyUsOf(histogram), answers, wrong }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /content-length: (\d+)/i.exec(text)?.[1] ?? '0'
  return text.length >= end + 4 + Number(length)
}
