// The files for Prometheus and Grafana: valid by Prometheus' own tool where it is installed, and
// naming only series that exist. A real Prometheus scrapes a service where there is one.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startProcessMeters } from '../../src/base/telemetry/process-meters.ts'
import { openService } from '../testkit/metrics-service.ts'
import { findTool } from '../testkit/promtool.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const folder = join(root, 'dashboards')
const promtool = findTool('promtool')
const prometheus = findTool('prometheus')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly targets?: readonly { readonly expr: string }[]
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit: string
      readonly thresholds?: { readonly steps: readonly { readonly value: number | null }[] }
    }
  }
}
const { panels } = JSON.parse(read('grafana.json')) as { panels: readonly Panel[] }

describe('dashboards', () => {
  test.skipIf(promtool === null).each([
    ['check', 'config', 'prometheus.yml'],
    ['check', 'rules', 'alerts.yml'],
    ['test', 'rules', 'alerts.test.yml'],
  ])('promtool %s %s %s (skipped without promtool)', (...words) => {
    const { status, stdout, stderr } = spawnSync(promtool!, words, {
      cwd: folder,
      encoding: 'utf8',
    })
    expect(`${stdout}${stderr}`).not.toContain('FAILED')
    expect(status).toBe(0)
  })

  test('point each alert to its own section of the operating guide', () => {
    const guide = readFileSync(join(root, 'docs/OPERATING.md'), 'utf8')
    const sections = [...guide.matchAll(/^### (\w+)$/gm)].map(([, name]) => name)
    const alerts = [...read('alerts.yml').matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    const books = [...read('alerts.yml').matchAll(/runbook: "docs\/OPERATING\.md#(\w+)"/g)]
    expect(sections).toEqual(alerts)
    expect(books.map(([, anchor]) => anchor)).toEqual(alerts.map((name) => name?.toLowerCase()))
  })

  test('name only series of METERS.md, which lists what a start declares', () => {
    const meters = readFileSync(join(root, 'docs/METERS.md'), 'utf8')
    const declared = new Set([...meters.matchAll(/^\| `(sluice_\w+)`/gm)].map(([, name]) => name))
    const used = ['alerts.yml', 'grafana.json'].flatMap((name) => [
      ...read(name).matchAll(/sluice_[a-z0-9_]+/g),
    ])
    const unknown = used
      .map(([name]) => name)
      .filter(
        (name) => !declared.has(name) && !declared.has(name.replace(/_(bucket|sum|count)$/, '')),
      )
    expect(used.length).toBeGreaterThan(60)
    expect([...new Set(unknown)]).toEqual([])
  })

  test('have a row for every product, and panels with description, unit and series', () => {
    const titles = panels.filter(({ type }) => type === 'row').map(({ title }) => title)
    for (const product of ['Chain', 'Metrics', 'RPC', 'WebSocket', 'gRPC', 'TPU', 'Shred', 'Index'])
      expect(titles.filter((title) => title.startsWith(product))).toHaveLength(1)
    const shown = panels.filter(({ type }) => type !== 'row')
    for (const panel of shown) {
      expect(panel.description, panel.title).toMatch(/^[A-Z0-9].{10,}\.$/)
      expect(panel.fieldConfig?.defaults.unit, panel.title).toMatch(/^\w+$/)
      expect(panel.targets?.length, panel.title).toBeGreaterThan(0)
    }
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  })

  test('draw the bands of the efficiency at 90 and 70 %', () => {
    const efficiency = panels.filter(({ title }) => title === 'Parallel efficiency')
    expect(efficiency).toHaveLength(2)
    for (const { fieldConfig } of efficiency)
      expect(fieldConfig?.defaults.thresholds?.steps.map(({ value }) => value)).toEqual([
        null,
        0.7,
        0.9,
      ])
  })

  test.skipIf(promtool === null)(
    'has expressions that promtool parses (skipped without it)',
    () => {
      const rules = panels
        .flatMap(({ targets = [] }) => targets)
        .map(({ expr }) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'))
        .map((expr, at) => ({ record: `board:${at}`, expr }))
      const data = mkdtempSync(join(tmpdir(), 'sluice-board-'))
      const file = join(data, 'board.yml')
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'board', rules }] }))
      const { status, stdout, stderr } = spawnSync(promtool!, ['check', 'rules', file], {
        encoding: 'utf8',
      })
      rmSync(data, { recursive: true })
      expect(rules.length).toBeGreaterThan(80)
      expect(status, `${stdout}${stderr}`).toBe(0)
    },
  )

  test('every alert has instructions', () => {
    const alerts = read('alerts.yml').split('- alert: ').slice(1)
    expect(alerts.length).toBeGreaterThan(8)
    for (const alert of alerts)
      for (const part of ['severity:', 'summary:', 'description:', 'runbook:'])
        expect(alert).toContain(part)
  })
})

test.skipIf(prometheus === null)(
  'a real Prometheus scrapes the service (skipped without it)',
  async () => {
    const service = await openService()
    const watching = startProcessMeters(service.meters, { version: '1' })
    const startedMs = performance.now()
    service.execution.run(1)
    const data = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
    const config = read('prometheus.yml')
      .replace('127.0.0.1:8443', `127.0.0.1:${service.port}`)
      .replace('scrape_interval: 15s', 'scrape_interval: 1s')
      .replace('- alerts.yml', `- ${join(folder, 'alerts.yml')}`)
    writeFileSync(join(data, 'prometheus.yml'), config)
    const { port } = await openService().then(async (free) => {
      await free.running.stop()
      return free
    })
    const child = spawn(prometheus!, [
      `--config.file=${data}/prometheus.yml`,
      `--storage.tsdb.path=${data}/tsdb`,
      `--web.listen-address=127.0.0.1:${port}`,
    ])
    const query = async (expression: string) => {
      const url = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(expression)}`
      const answer = await fetch(url)
        .then((response) => response.json())
        // Not listening yet, or not ready.
        .catch(() => null)
      return (
        (answer as { data?: { result: { value: [number, string] }[] } } | null)?.data?.result ?? []
      )
    }
    try {
      await until(async () => (await query('up{job="sluice"} == 1')).length === 1, 'a scrape')
      expect((await query('sluice_build_info'))[0]?.value[1]).toBe('1')
      const age = Number((await query('sluice_source_event_age_seconds'))[0]?.value[1])
      expect(age).toBeGreaterThan(0)
      expect(age).toBeLessThan((performance.now() - startedMs) / 1_000)
      expect((await query('sluice_frames_made_total{kind="TPS"}'))[0]?.value[1]).toBe('1')
    } finally {
      child.kill()
      watching.stop()
      await service.running.stop()
      rmSync(data, { recursive: true, force: true, maxRetries: 5 })
    }
  },
)
