import {
  type Dashboard,
  DashboardBuilder,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder } from '@grafana/grafana-foundation-sdk/timeseries'

/** One line, or one group of lines, of a panel. */
interface Query {
  readonly expr: string
  readonly legend: string
}

interface Panel {
  readonly title: string
  readonly description: string
  /** A unit of Grafana's. */
  readonly unit: string
  readonly queries: readonly Query[]
}

interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

const CONSUMER = 'messaging_consumer_group_name'
const OF = `job=~"$job", ${CONSUMER}=~"$consumer"`
const deliveries = (more: string): string =>
  `rate(onceward_deliveries_total{${OF}, ${more}}[$__rate_interval])`

/** Quantiles of a histogram, by consumer. */
const quantiles = (histogram: string): readonly Query[] =>
  [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le, ${CONSUMER}) (rate(${histogram}_bucket{${OF}}[$__rate_interval])))`,
    legend: `{{${CONSUMER}}} p${quantile * 100}`,
  }))

const max = (series: string, by: string): string => `max by (${by}) (${series}{${OF}})`
const min = (series: string, by: string): string => `min by (${by}) (${series}{${OF}})`
const sum = (series: string, by: string): string => `sum by (${by}) (${series}{${OF}})`

const ROWS: readonly Row[] = [
  {
    title: 'Is something wrong?',
    panels: [
      {
        title: 'Outages',
        description:
          'A line at 1 for each dependency that does not answer. None is the usual state.',
        unit: 'short',
        queries: [
          {
            expr: max('onceward_guard_outage', `${CONSUMER}, onceward_dependency`),
            legend: `{{${CONSUMER}}} {{onceward_dependency}}`,
          },
          {
            expr: 'max by (onceward_consumption, onceward_dependency) (onceward_consumption_outage{job=~"$job"})',
            legend: '{{onceward_consumption}} {{onceward_dependency}}',
          },
        ],
      },
      {
        title: 'Processes by state of their consumer',
        description: 'A deployment shows draining for a moment.',
        unit: 'short',
        queries: [
          {
            expr: 'sum by (onceward_consumption, onceward_state) (onceward_consumption_state{job=~"$job"})',
            legend: '{{onceward_consumption}} {{onceward_state}}',
          },
        ],
      },
      {
        title: 'Dead letters that wait for an operator',
        description: '`npx onceward dead-letters list` shows them.',
        unit: 'short',
        queries: [
          {
            expr: `${max('onceward_dead_letters', `${CONSUMER}, onceward_reason`)} > 0 or ${max('onceward_dead_letters', CONSUMER)} * 0`,
            legend: `{{${CONSUMER}}} {{onceward_reason}}`,
          },
        ],
      },
    ],
  },
  {
    title: 'Deliveries',
    panels: [
      {
        title: 'Processed',
        description: 'Effects that were committed.',
        unit: 'ops',
        queries: [
          {
            expr: `sum by (${CONSUMER}) (${deliveries('onceward_reason="processed"')})`,
            legend: `{{${CONSUMER}}}`,
          },
        ],
      },
      {
        title: 'Deferred, dead-lettered and abandoned, by cause',
        description: 'docs/operations.md says what each cause means and what to do.',
        unit: 'ops',
        queries: [
          {
            expr: `sum by (${CONSUMER}, onceward_outcome, onceward_reason, onceward_cause) (${deliveries('onceward_outcome!="ack", onceward_repeated=""')})`,
            legend: `{{${CONSUMER}}} {{onceward_outcome}} {{onceward_reason}} {{onceward_cause}}`,
          },
        ],
      },
      {
        title: 'Duplicates, by cause',
        description:
          'redelivered: the broker delivered a message again. copy: the producer sent another one.',
        unit: 'ops',
        queries: [
          {
            expr: `sum by (${CONSUMER}, onceward_cause) (${deliveries('onceward_reason="duplicate"')})`,
            legend: `{{${CONSUMER}}} {{onceward_cause}}`,
          },
        ],
      },
      {
        title: 'In hand',
        description: 'Received and not settled. The limit is what the guards run at the same time.',
        unit: 'short',
        queries: [
          { expr: sum('onceward_guard_in_hand', CONSUMER), legend: `{{${CONSUMER}}}` },
          { expr: sum('onceward_guard_concurrency', CONSUMER), legend: `{{${CONSUMER}}} limit` },
        ],
      },
    ],
  },
  {
    title: 'Times',
    panels: [
      {
        title: 'In the handler',
        description: 'messaging.process.duration',
        unit: 's',
        queries: quantiles('messaging_process_duration'),
      },
      {
        title: 'Until the event was claimed',
        description: 'The lease, and BEGIN with the row.',
        unit: 's',
        queries: quantiles('onceward_claim_duration'),
      },
      {
        title: 'COMMIT',
        description: '',
        unit: 's',
        queries: quantiles('onceward_commit_duration'),
      },
      {
        title: 'Age of messages',
        description: 'From the producer to the settlement. It grows when consumers are too slow.',
        unit: 's',
        queries: quantiles('onceward_message_age'),
      },
      {
        title: 'Attempts',
        description: 'More than 1: handlers fail and are run again.',
        unit: 'short',
        queries: quantiles('onceward_attempts'),
      },
    ],
  },
  {
    title: 'Stores',
    panels: [
      {
        title: 'Connections of the pool',
        description: 'Waiting for minutes: raise `max` of the pool, or lower `concurrency`.',
        unit: 'short',
        queries: [
          {
            expr: sum('onceward_pool_connections', `${CONSUMER}, onceward_state`),
            legend: `{{${CONSUMER}}} {{onceward_state}}`,
          },
          { expr: sum('onceward_pool_waiting', CONSUMER), legend: `{{${CONSUMER}}} waiting` },
          { expr: sum('onceward_pool_max', CONSUMER), legend: `{{${CONSUMER}}} limit` },
        ],
      },
      {
        title: 'Renewals of leases',
        description: 'lost: another owner took the event. failed: the lease store did not answer.',
        unit: 'ops',
        queries: [
          {
            expr: `sum by (${CONSUMER}, onceward_answer) (rate(onceward_lease_renewals_total{${OF}}[$__rate_interval]))`,
            legend: `{{${CONSUMER}}} {{onceward_answer}}`,
          },
        ],
      },
      {
        title: 'Size of the tables',
        description: 'processed_events holds events per second × dedup window.',
        unit: 'bytes',
        queries: [
          { expr: max('onceward_table_size', 'onceward_table'), legend: '{{onceward_table}}' },
        ],
      },
      {
        title: 'Time since the last heartbeat of a worker',
        description: 'Above 90 s the consumer has no worker.',
        unit: 's',
        queries: [{ expr: min('onceward_worker_silence', CONSUMER), legend: `{{${CONSUMER}}}` }],
      },
      {
        title: 'Parked messages',
        description: 'Replayed events, and dead letters that wait for their place.',
        unit: 'short',
        queries: [
          { expr: max('onceward_parked', CONSUMER), legend: `{{${CONSUMER}}}` },
          { expr: max('onceward_parked_age', CONSUMER), legend: `{{${CONSUMER}}} seconds due` },
        ],
      },
    ],
  },
]

const filledIn = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '1m').replaceAll('$job', '.*').replaceAll('$consumer', '.*')

/** Every panel of the dashboard, with Grafana's variables filled in for all series. */
export const PANELS: readonly Pick<Panel, 'title' | 'queries'>[] = ROWS.flatMap(
  ({ panels }) => panels,
).map(({ queries, title }) => ({
  title,
  queries: queries.map(({ expr, legend }) => ({ expr: filledIn(expr), legend })),
}))

const DATASOURCE = { type: 'prometheus', uid: '$datasource' } as const

/** ops/dashboard.json, which `npm run docs` writes. */
export function dashboard(): Dashboard {
  const builder = new DashboardBuilder('onceward')
    .uid('onceward')
    .description('Guards and consumers of onceward. Metrics: docs/telemetry.md')
    .tags(['onceward'])
    .refresh('30s')
    .time({ from: 'now-1h', to: 'now' })
    .timezone('browser')
    .readonly()
    .withVariable(
      new DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'),
    )
    .withVariable(variable('job', 'Job', 'label_values(onceward_guard_in_hand, job)'))
    .withVariable(
      variable(
        'consumer',
        'Consumer',
        `label_values(onceward_guard_in_hand{job=~"$job"}, ${CONSUMER})`,
      ),
    )
  for (const row of ROWS) {
    builder.withRow(new RowBuilder(row.title))
    for (const panel of row.panels) builder.withPanel(panelOf(panel))
  }
  return builder.build()
}

function variable(name: string, label: string, query: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(label)
    .datasource(DATASOURCE)
    .query(query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
}

function panelOf({ description, queries, title, unit }: Panel): PanelBuilder {
  const panel = new PanelBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .min(0)
    .datasource(DATASOURCE)
    .height(8)
    .span(8)
  for (const [index, { expr, legend }] of queries.entries())
    panel.withTarget(
      new DataqueryBuilder()
        .refId(String.fromCharCode(65 + index))
        .expr(expr)
        .legendFormat(legend)
        .datasource(DATASOURCE),
    )
  return panel
}
