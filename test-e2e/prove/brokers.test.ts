// @module-tag nightly
import { PROVE_BROKERS } from '@onceward/testing/prove'
import { describeProofs } from './suite.ts'

for (const broker of PROVE_BROKERS) describeProofs(broker)
