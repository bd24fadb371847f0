import { expect, test } from 'vitest'
import { needsOneNode, toStoreError } from './errors.ts'

test.each([
  'CROSSSLOT Keys in request do not hash to the same slot',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  'Too many Cluster redirections. Last error: ReplyError: TRYAGAIN Multiple keys request during rehashing of slot',
  // Red when only the quoted answer counts: batches then fail by luck for as long as the slot moves.
  'Too many Cluster redirections. Last error: ReplyError: ASK 9115 127.0.0.1:6380',
  'Too many Cluster redirections. Last error: ReplyError: MOVED 9115 127.0.0.1:6380',
])('keys of one script are on several nodes: %s', (message) => {
  expect(needsOneNode(new Error(message))).toBe(true)
})

test.each([
  'CLUSTERDOWN The cluster is down',
  'LOADING Redis is loading the dataset in memory',
  'Connection is closed.',
])('no other split helps: %s', (message) => {
  expect(needsOneNode(new Error(message))).toBe(false)
})

test('a client for one server that is connected to a cluster is told what it needs', () => {
  const error = toStoreError(new Error('MOVED 866 127.0.0.1:7001'), 'claim')
  expect(error.message).toMatch(
    /another node of its cluster has the key: use a client for clusters/,
  )
})
