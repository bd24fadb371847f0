import { expect, test } from 'vitest'
import { DELIVERY_METRICS, GUARD_METRICS } from '../names.ts'
import { prometheusName } from './prometheus.ts'

test('counters of every kind end in _total, as the exporter of OpenTelemetry names them', () => {
  expect(prometheusName(DELIVERY_METRICS.deliveries)).toBe('onceward_deliveries_total')
  expect(prometheusName(GUARD_METRICS.renewals)).toBe('onceward_lease_renewals_total')
  expect(prometheusName(DELIVERY_METRICS.attempts)).toBe('onceward_attempts')
})
