import { expect, test } from 'vitest'
import { CONSUMPTION_METRICS } from '../names.ts'
import { prometheusText } from './prometheus.ts'

// Red when a metric is told twice, or a quote of a name ends its label: Prometheus refuses the whole text.
test('each metric is told once, with all its values', () => {
  const { inFlight, settleFailures } = CONSUMPTION_METRICS
  const attributes = { 'onceward.consumption': 'a "b"\\\n"c"\\\n', two: '2' }
  const text = prometheusText([
    { metric: inFlight, value: 1, attributes: {} },
    { metric: settleFailures, value: 0.5, attributes: { a: '' } },
    { metric: inFlight, value: 2, attributes },
  ])
  expect(text.split('\n')).toEqual([
    `# HELP onceward_consumption_in_flight ${inFlight.meaning}`,
    '# TYPE onceward_consumption_in_flight gauge',
    'onceward_consumption_in_flight{} 1',
    String.raw`onceward_consumption_in_flight{onceward_consumption="a \"b\"\\\n\"c\"\\\n",two="2"} 2`,
    `# HELP onceward_consumption_settle_failures_total ${settleFailures.meaning}`,
    '# TYPE onceward_consumption_settle_failures_total counter',
    'onceward_consumption_settle_failures_total{a=""} 0.5',
    '',
  ])
})
