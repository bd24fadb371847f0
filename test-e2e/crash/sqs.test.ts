import { describeCrashes } from './suite.ts'

describeCrashes('sqs')
