import { describeCrashes } from './suite.ts'

describeCrashes('amqp')
