// Renders the Grafana board: rows by product, panels from one line each. `npm run docs` writes it
// to dashboards/grafana.json.
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const datasource = { type: 'prometheus', uid: '${datasource}' }
const here = 'instance=~"$instance"'
const rate = (name, by, more = '') =>
  `sum${by === undefined ? '' : ` by (${by})`} (rate(${name}{${here}${more}}[$__rate_interval]))`
const gauge = (name) => `${name}{${here}}`
const quantile = (q, name, by = '') =>
  `histogram_quantile(${q}, sum by (${by}le) (rate(${name}_bucket{${here}}[$__rate_interval])))`
const percentiles = (name) => ({ p50: quantile(0.5, name), p99: quantile(0.99, name) })
const mean = (name) => `${rate(`${name}_sum`)} / (${rate(`${name}_count`)} > 0)`

// Colours that the colour-blind can tell apart; each from this value on.
const good = '#0072b2'
const middling = '#e69f00'
const bad = '#d55e00'
const lower = (first, ...more) => steps(bad, [first, middling], ...more.map((at) => [at, good]))
const higher = (first, second) =>
  steps(good, [first, second ? middling : bad], second && [second, bad])

const rows = {
  'At a glance': [
    stat(
      'TPS',
      'Transactions per second of the execution source, over its last 2.5 blocks.',
      'short',
      gauge('sluice_tps'),
    ),
    stat(
      'Parallel efficiency',
      'Mean over the blocks of the interval. From 90 % on excellent, from 70 % on bottlenecks, below mostly sequential.',
      'percentunit',
      mean('sluice_parallel_efficiency_ratio'),
      lower(0.7, 0.9),
    ),
    stat(
      'Event age',
      'Time since the last execution event: degraded over 10 s, closed at 30 s.',
      's',
      gauge('sluice_source_event_age_seconds'),
      higher(10, 30),
    ),
    stat(
      'RPC p99',
      'One call in a hundred takes longer.',
      's',
      quantile(0.99, 'sluice_rpc_seconds'),
      higher(0.25, 1),
    ),
    stat(
      'RPC errors',
      'Share of calls that failed by our fault; the objective is 0.1 %.',
      'percentunit',
      errorRatio(),
      higher(0.001, 0.0144),
    ),
    stat(
      'Nodes up',
      'Nodes in the rotation, of all sets.',
      'short',
      `sum(${gauge('sluice_upstream_up')})`,
      steps(bad, [1, good]),
    ),
    stat(
      'Index lag',
      'Age of the oldest update that is not yet in the index.',
      's',
      gauge('sluice_index_lag_seconds'),
      higher(10, 60),
    ),
    stat(
      'Event-loop lag p99',
      'How late timers of the main thread are: every endpoint waits as long.',
      's',
      quantile(0.99, 'sluice_event_loop_lag_seconds'),
      higher(0.05, 0.1),
    ),
  ],
  Chain: [
    lines(
      'TPS',
      'Transactions per second of the execution source, over its last 2.5 blocks.',
      'short',
      { '{{instance}}': gauge('sluice_tps') },
    ),
    lines(
      'Parallel efficiency',
      'Mean per interval with the bands 90 % and 70 %. Blocks without transactions do not count.',
      'percentunit',
      {
        mean: mean('sluice_parallel_efficiency_ratio'),
        'lowest tenth': quantile(0.1, 'sluice_parallel_efficiency_ratio'),
      },
      lower(0.7, 0.9),
      { max: 1 },
    ),
    lines(
      'Blocks by band',
      'Share of blocks at 90 % and more (excellent), 70 to 90 % (bottlenecks) and below 70 % (sequential).',
      'percentunit',
      bands(),
      null,
      { max: 1, min: 0, custom: { stacking: { mode: 'normal' }, fillOpacity: 40 } },
    ),
    lines(
      'Contention',
      'Of the newest block: storage slots that two or more transactions touched, of all; and the longest chain of transactions that waited for each other, of all.',
      'percentunit',
      {
        'contended slots': gauge('sluice_contention_ratio'),
        'critical path': gauge('sluice_critical_path_ratio'),
      },
    ),
    lines(
      'Finalization',
      'From the proposal of a block to its finalization, by the timestamps of the events.',
      's',
      percentiles('sluice_finalize_seconds'),
      higher(2, 5),
    ),
    lines(
      'Event age',
      'Over 10 s the service is degraded, at 30 s its streams and REST close.',
      's',
      { '{{instance}}': gauge('sluice_source_event_age_seconds') },
      higher(10, 30),
    ),
    lines(
      'Newest block',
      'Last block that ended; a flat line is a source that stands still.',
      'none',
      { '{{instance}}': gauge('sluice_source_block_number') },
    ),
    lines(
      'Gaps',
      'Events that the source overwrote before they were read; customers see a Gap frame.',
      'short',
      { '{{instance}}': `increase(${gauge('sluice_source_gaps_total')}[$__rate_interval])` },
      higher(1),
    ),
    lines(
      'Analysis',
      'From reading a BlockEnd to the frames in the log.',
      's',
      percentiles('sluice_analysis_seconds'),
    ),
  ],
  'Metrics service (8443)': [
    lines('Frames made', 'Frames appended to the log, whoever receives them.', 'ops', {
      '{{kind}}': rate('sluice_frames_made_total', 'kind'),
    }),
    lines('Frames sent', 'Frames times receivers.', 'ops', {
      '{{kind}}': rate('sluice_frames_sent_total', 'kind'),
    }),
    lines(
      'Frame delivery',
      'From reading an event to handing its frame to all live clients.',
      's',
      percentiles('sluice_frame_delivery_seconds'),
      higher(0.05, 0.1),
    ),
    lines(
      'Stream clients',
      'Open WebSockets; those that catch up read from the resume buffer.',
      'short',
      { open: gauge('sluice_ws_clients'), 'catching up': gauge('sluice_ws_following_clients') },
    ),
    lines(
      'Slow clients',
      'Frames replaced by newer ones for slow clients, and clients closed with 1013 after 30 s.',
      'ops',
      {
        'replaced {{kind}}': rate('sluice_frames_dropped_total', 'kind'),
        cut: rate('sluice_ws_slow_cuts_total'),
      },
    ),
    lines(
      'HTTP requests',
      'By route; one of many clients is answered from a shared rendering.',
      'reqps',
      { '{{route}}': rate('sluice_metrics_requests_total', 'route') },
    ),
    lines('Resume buffer', 'Bytes kept for clients that resume; the bound is 256 MiB.', 'bytes', {
      '{{instance}}': gauge('sluice_resume_buffer_bytes'),
    }),
  ],
  'RPC (8899)': [
    lines('Calls', 'JSON-RPC calls by outcome, items of a batch one by one.', 'reqps', {
      '{{outcome}}': rate('sluice_rpc_requests_total', 'outcome'),
    }),
    lines(
      'Time',
      'From a whole request to its answer.',
      's',
      percentiles('sluice_rpc_seconds'),
      higher(0.25, 1),
    ),
    lines(
      'Errors',
      'Share of calls that failed by our fault; the objective is 0.1 %.',
      'percentunit',
      { '{{instance}}': errorRatio('instance') },
      higher(0.001, 0.0144),
    ),
    lines('Methods', 'The ten methods called most.', 'reqps', {
      '{{method}}': `topk(10, ${rate('sluice_rpc_requests_total', 'method')})`,
    }),
    lines(
      'Answered by',
      'From the geyser stream of the set without a node, or by a node.',
      'reqps',
      { '{{reads}} by {{source}}': rate('sluice_upstream_answers_total', 'reads, source') },
    ),
  ],
  'WebSocket (8900)': [
    lines(
      'Connections and subscriptions',
      'Distinct subscriptions are encoded once, however many hold them.',
      'short',
      {
        connections: gauge('sluice_websocket_connections'),
        subscriptions: gauge('sluice_websocket_subscriptions'),
        distinct: gauge('sluice_websocket_subscriptions_distinct'),
      },
    ),
    lines('Notifications', 'Notifications sent, by what was subscribed to.', 'ops', {
      '{{topic}}': rate('sluice_websocket_notifications_total', 'topic'),
    }),
    lines(
      'Delivery',
      'From the creation of an update to its notification, processed only.',
      's',
      percentiles('sluice_websocket_delivery_seconds'),
      higher(0.1, 0.5),
    ),
    lines('Closed', 'By who or what ended the connection.', 'ops', {
      '{{by}}': rate('sluice_websocket_closed_total', 'by'),
    }),
  ],
  'gRPC (10010)': [
    lines(
      'Streams',
      'Open Subscribe streams, and the distinct sets of filters among them.',
      'short',
      { streams: gauge('sluice_grpc_streams'), 'filter sets': gauge('sluice_grpc_groups') },
    ),
    lines('Updates', 'Handed to streams, by kind.', 'ops', {
      '{{kind}}': rate('sluice_grpc_updates_total', 'kind'),
    }),
    lines('Sent', 'Bytes of frames handed to streams.', 'Bps', {
      '{{instance}}': rate('sluice_grpc_sent_bytes_total', 'instance'),
    }),
    lines('Backlog', 'Unsent bytes of all streams; one stream is ended at 16 MiB.', 'bytes', {
      '{{instance}}': gauge('sluice_grpc_backlog_bytes'),
    }),
    lines('Ended', 'Streams ended, by reason.', 'ops', {
      '{{reason}}': rate('sluice_grpc_streams_ended_total', 'reason'),
    }),
    lines('Calls', 'By method, and whether token and quota let them in.', 'reqps', {
      '{{method}} {{outcome}}': rate('sluice_grpc_requests_total', 'method, outcome'),
    }),
  ],
  'TPU sender (8901)': [
    lines('Submissions', 'Accepted, duplicates, and refused by reason.', 'ops', {
      accepted: rate('sluice_tpu_accepted_total'),
      duplicates: rate('sluice_tpu_duplicates_total'),
      '{{reason}}': rate('sluice_tpu_rejected_total', 'reason'),
    }),
    lines('Outcomes', 'Accepted submissions that landed, expired or failed.', 'ops', {
      '{{outcome}}': rate('sluice_tpu_outcomes_total', 'outcome'),
    }),
    lines(
      'Forwarding',
      'From the head of a request to the forwarding of its transaction.',
      's',
      percentiles('sluice_tpu_forward_seconds'),
      higher(0.01, 0.1),
    ),
    lines(
      'Slots to land',
      'From acceptance to the block.',
      'short',
      percentiles('sluice_tpu_land_slots'),
    ),
    lines('Tips paid', 'Lamports per second of submissions that landed.', 'short', {
      lamports: rate('sluice_tpu_tips_landed_lamports_total'),
    }),
    lines('Upstreams and queue', 'Healthy upstreams; submissions in flight and queued.', 'short', {
      upstreams: gauge('sluice_tpu_upstreams_up'),
      'in flight': gauge('sluice_tpu_in_flight'),
      queued: gauge('sluice_tpu_queued'),
    }),
  ],
  'ShredStream (UDP)': [
    lines('Shreds', 'Packets in, first copies, and shreds out to all destinations.', 'pps', {
      in: rate('sluice_shreds_in_total'),
      accepted: rate('sluice_shreds_accepted_total'),
      out: rate('sluice_shreds_out_total'),
    }),
    lines(
      'Dropped',
      'By reason; and by the kernel, when its receive buffer is full.',
      'pps',
      {
        '{{reason}}': rate('sluice_shreds_dropped_total', 'reason', ',reason!="duplicate"'),
        kernel: rate('sluice_shreds_kernel_dropped_total'),
      },
      higher(10),
    ),
    lines('First copies by source', 'Which source was first: its share is its worth.', 'pps', {
      '{{source}}': rate('sluice_shreds_source_first_total', 'source'),
    }),
    lines(
      'Destinations',
      'Customers that get shreds, that have to prove their address, and whose port is closed.',
      'short',
      {
        active: gauge('sluice_shreds_destinations_active'),
        pending: gauge('sluice_shreds_destinations_pending'),
        unreachable: gauge('sluice_shreds_destinations_unreachable'),
      },
    ),
    lines('Sent', 'Bytes to all destinations.', 'Bps', {
      '{{instance}}': rate('sluice_shreds_out_bytes_total', 'instance'),
    }),
  ],
  'Indexer (8123)': [
    lines(
      'Index lag',
      'Age of the oldest update that is not yet durable.',
      's',
      { '{{instance}}': gauge('sluice_index_lag_seconds') },
      higher(10, 60),
    ),
    lines('Rows written', 'Durable rows, by table.', 'wps', {
      '{{table}}': rate('sluice_index_rows_total', 'table'),
    }),
    lines('Queries', 'By how they ended: OK or the name of the exception.', 'reqps', {
      '{{outcome}}': rate('sluice_index_queries_total', 'outcome'),
    }),
    lines(
      'Query time',
      'From a complete query to the end of its response.',
      's',
      percentiles('sluice_index_query_seconds'),
      higher(1, 10),
    ),
    lines(
      'Query processes',
      'Busy ones, all, running queries, restarts of their program.',
      'short',
      {
        busy: gauge('sluice_index_query_processes_busy'),
        all: gauge('sluice_index_query_processes'),
        queries: gauge('sluice_index_queries_running'),
        restarts: `increase(${gauge('sluice_index_query_program_restarts_total')}[$__rate_interval])`,
      },
    ),
    lines(
      'Lost',
      'Slots, frames, tips and queries that left the logs before they were indexed.',
      'short',
      { '{{feed}}': `increase(${gauge('sluice_index_lost_total')}[$__rate_interval])` },
      higher(1),
    ),
  ],
  'Upstream nodes': [
    lines(
      'In the rotation',
      '1 while a node is up.',
      'short',
      { '{{set}}/{{node}}': gauge('sluice_upstream_up') },
      steps(bad, [1, good]),
      { max: 1, min: 0 },
    ),
    lines(
      'Lag',
      'Slots behind the best node of the set.',
      'short',
      { '{{set}}/{{node}}': gauge('sluice_upstream_lag_slots') },
      higher(25, 50),
    ),
    lines('Calls', 'Calls to nodes, by outcome.', 'reqps', {
      '{{set}}/{{node}} {{outcome}}': rate('sluice_upstream_requests_total', 'set, node, outcome'),
    }),
    lines(
      'Time',
      'To the head of the answer, p99 by node.',
      's',
      { '{{set}}/{{node}}': quantile(0.99, 'sluice_upstream_seconds', 'set, node, ') },
      higher(0.25, 1),
    ),
    lines(
      'Failovers',
      'Reads sent to a further node because one failed, and to a second one because one was slow.',
      'ops',
      {
        failovers: rate('sluice_upstream_failovers_total'),
        hedges: rate('sluice_upstream_hedges_total'),
      },
    ),
    lines(
      'Geyser streams',
      '1 while a node of the set sends its stream.',
      'short',
      { '{{set}}': gauge('sluice_upstream_geyser_up') },
      steps(bad, [1, good]),
      { max: 1, min: 0 },
    ),
    lines(
      'Geyser gaps',
      'Slots that no node could replay after a failover.',
      'short',
      {
        '{{set}}': `increase(${gauge('sluice_upstream_geyser_gap_slots_total')}[$__rate_interval])`,
      },
      higher(1),
    ),
  ],
  'Tokens and budgets': [
    lines(
      'Refused',
      'Without a valid token, over the budget of the subscription, or over that of the address, by endpoint.',
      'reqps',
      {
        'token, {{door}}': rate('sluice_auth_refused_total', 'door'),
        'budget, {{door}}': rate('sluice_quota_refused_total', 'door'),
        'address, {{door}}': rate('sluice_address_refused_total', 'door'),
      },
      higher(20),
    ),
    lines(
      'Open with a token',
      'Connections, streams and queries that end when their token is revoked.',
      'short',
      { '{{instance}}': gauge('sluice_auth_held') },
    ),
    lines(
      'Usage flushes failed',
      'Usage that could not be written to the registry yet.',
      'short',
      {
        '{{instance}}': `increase(${gauge('sluice_quota_flush_failures_total')}[$__rate_interval])`,
      },
      higher(1),
    ),
  ],
  'Several gateways': [
    lines(
      'Gateways',
      'Gateways that exchange budgets through PostgreSQL; 0 while this one is cut off.',
      'short',
      { '{{instance}}': gauge('sluice_cluster_gateways') },
    ),
    lines(
      'Registry age',
      'Time since the registry was last known to be the newest of the cluster; callers are refused at 10 min.',
      's',
      { '{{instance}}': gauge('sluice_cluster_registry_age_seconds') },
      higher(60, 600),
    ),
    lines(
      'Exchange of budgets',
      'Time of one statement for all subscriptions in use, ten times a second.',
      's',
      percentiles('sluice_cluster_settle_seconds'),
      higher(0.1, 1),
    ),
    lines(
      'Age of budgets',
      'Time since shares were last exchanged; from 1 s on they go on without PostgreSQL.',
      's',
      { '{{instance}}': gauge('sluice_cluster_settle_age_seconds') },
      higher(1, 10),
    ),
    lines('Exchanges that failed', 'Shares go on without PostgreSQL.', 'short', {
      '{{instance}}': rate('sluice_cluster_settle_failed_total', 'instance'),
    }),
    lines(
      'Append to the event log',
      'Time of one commit; frames are sent after it.',
      's',
      percentiles('sluice_cluster_append_seconds'),
      higher(0.1, 1),
    ),
    lines(
      'Event log',
      'Time since each gateway last read the shared event log to its end.',
      's',
      { '{{instance}}': gauge('sluice_cluster_log_age_seconds') },
      higher(5, 30),
    ),
    lines(
      'Frames not yet numbered',
      'Frames of the source that the event log lacks, at the gateway that numbers them.',
      'short',
      { '{{instance}}': gauge('sluice_cluster_log_backlog_frames') },
      higher(100, 1000),
    ),
    lines('Numbers events', '1 at one gateway, 0 at the others.', 'short', {
      '{{instance}}': gauge('sluice_cluster_numberer'),
    }),
    lines('Destinations of shreds', 'Held by each gateway; together all of them.', 'short', {
      '{{instance}}': gauge('sluice_cluster_leases'),
    }),
    lines('Leases taken', 'Destinations that a gateway took over, or had at its start.', 'short', {
      '{{instance}}': `increase(${gauge('sluice_cluster_lease_terms_total')}[$__rate_interval])`,
    }),
    lines(
      'Connections to PostgreSQL',
      '1 while it is open.',
      'short',
      { '{{instance}} {{connection}}': gauge('sluice_cluster_up') },
      lower(1),
    ),
  ],
  Process: [
    lines(
      'Event-loop lag',
      'How late timers of the main thread are.',
      's',
      percentiles('sluice_event_loop_lag_seconds'),
      higher(0.05, 0.1),
    ),
    lines('CPU', 'Of all threads; 100 % is one core.', 'percentunit', {
      '{{mode}}': rate('sluice_process_cpu_seconds_total', 'mode'),
    }),
    lines(
      'Memory',
      'Resident, the JavaScript heap of the main thread, and buffers outside of it.',
      'bytes',
      {
        resident: gauge('sluice_process_resident_memory_bytes'),
        heap: gauge('sluice_process_heap_used_bytes'),
        external: gauge('sluice_process_external_memory_bytes'),
      },
    ),
    lines('Garbage collection', 'Pauses of the main thread, p99 by kind.', 's', {
      '{{kind}}': quantile(0.99, 'sluice_gc_pause_seconds', 'kind, '),
    }),
    lines('File descriptors', 'Open ones; the limit is that of the unit or the shell.', 'short', {
      '{{instance}}': gauge('sluice_process_open_fds'),
    }),
  ],
}

export function renderBoard() {
  const panels = []
  let id = 1
  let y = 0
  for (const [title, own] of Object.entries(rows)) {
    panels.push({
      id: id++,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y: y++, w: 24, h: 1 },
      panels: [],
    })
    const [wide, high] = own[0].type === 'stat' ? [3, 4] : [8, 8]
    const perLine = 24 / wide
    for (const [at, panel] of own.entries()) {
      const gridPos = {
        x: (at % perLine) * wide,
        y: y + Math.floor(at / perLine) * high,
        w: wide,
        h: high,
      }
      panels.push({ id: id++, ...panel, gridPos })
    }
    y += Math.ceil(own.length / perLine) * high
  }
  const variable = {
    name: 'instance',
    label: 'Server',
    type: 'query',
    datasource,
    query: 'label_values(sluice_build_info, instance)',
    includeAll: true,
    multi: true,
    current: { text: 'All', value: '$__all' },
    refresh: 2,
  }
  const board = {
    title: 'Sluice',
    uid: 'sluice',
    description: 'One row per product. Generated by scripts/board.mjs; alerts are in alerts.yml.',
    schemaVersion: 39,
    version: 2,
    editable: true,
    graphTooltip: 1,
    refresh: '15s',
    time: { from: 'now-1h', to: 'now' },
    tags: ['sluice'],
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus' },
        variable,
      ],
    },
    annotations: { list: [] },
    panels,
  }
  return `${JSON.stringify(board, null, 2)}\n`
}

function lines(title, description, unit, expressions, thresholds = null, defaults = {}) {
  const { custom = {}, ...bounds } = defaults
  const thresholdsStyle = { mode: thresholds === null ? 'off' : 'dashed' }
  return {
    title,
    description,
    type: 'timeseries',
    datasource,
    fieldConfig: {
      defaults: {
        unit,
        ...bounds,
        ...(thresholds === null ? {} : { thresholds }),
        custom: { lineWidth: 1, fillOpacity: 8, showPoints: 'never', thresholdsStyle, ...custom },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: Object.entries(expressions).map(([legendFormat, expr], at) =>
      target(expr, legendFormat, at),
    ),
  }
}

function stat(title, description, unit, expr, thresholds = steps(good)) {
  return {
    title,
    description,
    type: 'stat',
    datasource,
    fieldConfig: { defaults: { unit, thresholds, color: { mode: 'thresholds' } }, overrides: [] },
    options: { reduceOptions: { calcs: ['lastNotNull'] }, graphMode: 'area', colorMode: 'value' },
    targets: [target(expr, '{{instance}}', 0)],
  }
}

function target(expr, legendFormat, at) {
  return { datasource, expr, legendFormat, refId: String.fromCharCode(65 + at) }
}

/** The colour from the lowest value on, then [from, colour] pairs. */
function steps(first, ...more) {
  const rest = more.filter(Boolean).map(([value, color]) => ({ color, value }))
  return { mode: 'absolute', steps: [{ color: first, value: null }, ...rest] }
}

function errorRatio(by) {
  const failed = rate('sluice_rpc_requests_total', by, ',outcome="error"')
  return `${failed} / (${rate('sluice_rpc_requests_total', by)} > 0)`
}

function bands() {
  const below = (le) => rate('sluice_parallel_efficiency_ratio_bucket', undefined, `,le="${le}"`)
  const all = `(${rate('sluice_parallel_efficiency_ratio_count')} > 0)`
  return {
    excellent: `1 - ${below('0.9')} / ${all}`,
    bottlenecks: `(${below('0.9')} - ${below('0.7')}) / ${all}`,
    sequential: `${below('0.7')} / ${all}`,
  }
}
