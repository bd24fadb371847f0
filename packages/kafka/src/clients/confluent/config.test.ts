import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { resolveConsumerSettings } from '../../options.ts'
import { clientConfig, consumerConfig } from './config.ts'
import { type ConfluentConfig, confluent } from './index.ts'

const settings = resolveConsumerSettings({ topics: ['orders'] }, handMadeGuard().port.settings)
const SERVERS = { 'bootstrap.servers': 'localhost:9092' }

describe('settings of confluent', () => {
  test.each([
    ['enable.auto.commit', true, 'not processed'],
    ['enable.auto.offset.store', true, 'not processed'],
    ['auto.offset.reset', 'latest', 'fromBeginning'],
    ['isolation.level', 'read_uncommitted', 'aborts'],
    ['allow.auto.create.topics', true, 'deleted'],
    ['group.id', 'billing', '`groupId`'],
    ['rebalance_cb', () => undefined, 'needs it itself'],
    ['kafkaJS', {}, 'own names'],
  ])('%s: %s is refused by name', (name, value, why) => {
    const make = (): unknown => confluent({ ...SERVERS, [name]: value })
    expect(make).toThrow(ConfigurationError)
    expect(make).toThrow(name)
    expect(make).toThrow(why)
  })

  test.each([
    ['nothing', {}],
    ['no list of brokers', { 'bootstrap.servers': '' }],
    ['no settings', undefined],
  ])('%s is refused', (_, config) => {
    expect(() => confluent(config as unknown as ConfluentConfig)).toThrow(ConfigurationError)
  })

  test('what onceward decides may be given with the same value', () => {
    const same = { 'enable.auto.commit': false, 'auto.offset.reset': 'earliest' }
    expect(confluent({ ...SERVERS, ...same }).name).toBe('@confluentinc/kafka-javascript')
  })

  test('a consumer commits nothing by itself, reads committed records, and says whose it is', () => {
    expect(consumerConfig(SERVERS, settings, 'billing')).toMatchObject({
      'enable.auto.commit': false,
      'enable.auto.offset.store': false,
      'auto.offset.reset': 'earliest',
      'isolation.level': 'read_committed',
      'partition.assignment.strategy': 'cooperative-sticky',
      'client.id': 'billing',
    })
  })

  test('the broker decides about sessions in the newer protocol', () => {
    const config = consumerConfig({ ...SERVERS, 'group.protocol': 'consumer' }, settings, 'b')
    const decided = ['session.timeout.ms', 'heartbeat.interval.ms', 'partition.assignment.strategy']
    expect(Object.keys(config).filter((name) => decided.includes(name))).toEqual([])
  })

  test('producers and checks get no settings of consumers', () => {
    const given = {
      ...SERVERS,
      'group.protocol': 'consumer',
      'fetch.min.bytes': 9,
      'client.id': 'x',
    }
    expect(clientConfig(given as ConfluentConfig)).toEqual({ ...SERVERS, 'client.id': 'x' })
  })
})
