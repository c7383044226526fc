import { describe, expect, test } from 'vitest'
import { formatFor, renderExposition } from '../../../../src/base/telemetry/exposition.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { startProcessMeters } from '../../../../src/base/telemetry/process-meters.ts'
import { findTool, lint } from '../../../testkit/promtool.ts'

describe('Meters', () => {
  test('renders a histogram of given counts, cumulative, with sum and count', async () => {
    const meters = new Meters()
    const counts = { counts: [3, 2, 1], sum: 7.5 }
    const read = () => [[{}, counts]] as const
    meters.histogramsRead('sluice_far_seconds', 'Kept by a worker.', [0.1, 1], {}, read)
    const { body } = await meters.render('text')
    expect(body).toBe(
      [
        '# HELP sluice_far_seconds Kept by a worker.',
        '# TYPE sluice_far_seconds histogram',
        'sluice_far_seconds_bucket{le="0.1"} 3',
        'sluice_far_seconds_bucket{le="1"} 5',
        'sluice_far_seconds_bucket{le="+Inf"} 6',
        'sluice_far_seconds_sum 7.5',
        'sluice_far_seconds_count 6',
        '',
      ].join('\n'),
    )
  })

  test('reads some instruments by their names, those of joined processes included', async () => {
    const meters = new Meters()
    meters.counter('sluice_things_total', 'Things.').inc(2)
    let scraped = 0
    meters.gaugeRead('sluice_other', 'Other.', () => scraped++)
    meters.latency('sluice_far_seconds', 'Far.').observeMs(5)
    const labels = { gateway: 'one' }
    const sample = (name: string, value: number) => ({ name, labels, value })
    const family = (name: string, value: number) => ({
      ...{ name, help: '', kind: 'counter' as const },
      samples: [sample(name, value)],
    })
    meters.join(async () => [family('sluice_things_total', 7), family('sluice_other', 1)])
    const names = ['sluice_things_total', 'sluice_far_seconds', 'sluice_absent_total']
    const read = await meters.read(names)
    expect([...read.keys()].sort()).toEqual(['sluice_far_seconds', 'sluice_things_total'])
    expect(read.get('sluice_things_total')?.samples.map(({ value }) => value)).toEqual([2, 7])
    expect(read.get('sluice_far_seconds')?.samples.at(-1)?.value).toBe(1)
    expect(scraped).toBe(0)
  })

  test('refuses a second declaration of a name, whatever the kind', () => {
    const meters = new Meters()
    meters.latency('sluice_far_seconds', 'Far.')
    expect(() => meters.latency('sluice_far_seconds', 'Far.')).toThrow(
      'sluice_far_seconds is declared twice',
    )
    expect(() => meters.gauge('sluice_far_seconds', 'Far.')).toThrow('is declared twice')
    expect(meters.declared).toHaveLength(1)
  })

  test('keeps the names of counters whatever format was requested before', async () => {
    const meters = new Meters()
    meters.counters('sluice_things_total', 'Things.', 'kind', ['a', 'b']).a.inc(2)
    const before = (await meters.render('text')).body
    const open = (await meters.render('openmetrics')).body
    expect((await meters.render('text')).body).toBe(before)
    expect(before).toContain('# TYPE sluice_things_total counter')
    expect(before).toContain('sluice_things_total{kind="a"} 2')
    expect(before).toContain('sluice_things_total{kind="b"} 0')
    expect(open).toContain('# TYPE sluice_things counter')
    expect(open).toContain('sluice_things_total{kind="a"} 2')
    expect(open.endsWith('# EOF\n')).toBe(true)
  })

  test('reads counters and gauges from their source at each scrape', async () => {
    const meters = new Meters()
    let total = 1
    meters.gaugeRead('sluice_now_seconds', 'Now.', () => total * 2)
    meters.counterRead('sluice_far_total', 'Far.', { kind: ['x'] }, () => [[{ kind: 'x' }, total]])
    await meters.render('text')
    total = 5
    const { body } = await meters.render('text')
    expect(body).toContain('sluice_now_seconds 10')
    expect(body).toContain('sluice_far_total{kind="x"} 5')
  })

  test('has no series of what is not there', async () => {
    const meters = new Meters()
    let found: number | null = null
    meters.gaugeRead('sluice_age_seconds', 'Age.', () => found)
    meters.totalRead('sluice_lost_total', 'Lost.', () => found)
    expect((await meters.render('text')).body).not.toMatch(/^sluice/m)
    found = 0
    expect((await meters.render('text')).body).toMatch(/^sluice_age_seconds 0$/m)
    found = null
    expect((await meters.render('text')).body).not.toMatch(/^sluice/m)
  })

  test('escapes help and labels', () => {
    const family = { name: 'a', help: 'x\\y\n"z"', kind: 'gauge' as const, samples: [] }
    const sample = { name: 'a', labels: { l: 'q"\\\n' }, value: Number.POSITIVE_INFINITY }
    const text = renderExposition([{ ...family, samples: [sample] }], 'text')
    expect(text).toContain('# HELP a x\\\\y\\n"z"\n')
    expect(text).toContain('a{l="q\\"\\\\\\n"} +Inf\n')
  })

  test.each([
    ['', 'text'],
    ['*/*', 'text'],
    ['text/plain;version=0.0.4;q=0.5', 'text'],
    ['application/openmetrics-text;version=1.0.0,text/plain;q=0.5', 'openmetrics'],
    ['text/plain, Application/OpenMetrics-Text', 'openmetrics'],
  ])('takes Accept %j for %s', (accept, format) => {
    expect(formatFor(accept)).toBe(format)
  })
})

describe('process meters', () => {
  test('report memory, CPU, lag, pauses, handles and the build', async () => {
    const meters = new Meters()
    const watching = startProcessMeters(meters, { version: '1.2.3' })
    const { body } = await meters.render('text')
    watching.stop()
    expect(body).toContain(`sluice_build_info{version="1.2.3",node="${process.version}"} 1`)
    for (const name of [
      'sluice_process_resident_memory_bytes',
      'sluice_process_heap_used_bytes',
      'sluice_process_cpu_seconds_total{mode="user"}',
      'sluice_process_open_handles',
    ])
      expect(
        Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(body)?.[1]),
      ).toBeGreaterThan(0)
    expect(body).toContain('# TYPE sluice_event_loop_lag_seconds histogram')
    expect(body).toContain('# TYPE sluice_gc_pause_seconds histogram')
  })

  const promtool = findTool('promtool')
  test.skipIf(promtool === null)(
    'pass promtool without warnings (skipped without promtool)',
    async () => {
      const meters = new Meters()
      const watching = startProcessMeters(meters, { version: '1.2.3' })
      const { body } = await meters.render('text')
      watching.stop()
      expect(lint(promtool!, body)).toBe('')
    },
  )
})
