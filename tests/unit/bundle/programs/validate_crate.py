"""Run by the validator's packages: validate_crate.py CRATE. Prints what it finds, and how it ended.

The JSON-LD context of RO-Crate 1.1 is a page of the web. Here a stand-in has its address: those of its
terms that crates of Argosy's use, as https://w3id.org/ro/crate/1.1/context defines them.
"""

import json
import sys
from io import BytesIO

import requests
from requests.adapters import HTTPAdapter
from rocrate_validator import models, services
from urllib3 import HTTPResponse

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
OF_SCHEMA_ORG = """
    ComputerLanguage ControlAction CreateAction CreativeWork Dataset HowTo HowToStep OrganizeAction
    PropertyValue SoftwareApplication SoftwareSourceCode about actionStatus additionalType datePublished
    description encodingFormat endTime error exampleOfWork hasPart identifier instrument license mainEntity
    mentions name object position programmingLanguage propertyID result softwareVersion startTime step
    unitCode url value version workExample
"""
TERMS = {
    **{name: f"http://schema.org/{name}" for name in OF_SCHEMA_ORG.split()},
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "input": "https://bioschemas.org/ComputationalWorkflow#input",
    "output": "https://bioschemas.org/ComputationalWorkflow#output",
}


class StandIn(HTTPAdapter):
    """Answers for the address of the context, and for no other."""

    def send(self, request, **options):
        answer = HTTPResponse(
            BytesIO(json.dumps({"@context": TERMS}).encode()),
            headers={"Content-Type": "application/ld+json"},
            status=200 if request.url == CONTEXT else 404,
            request_url=request.url,
            preload_content=False,
        )
        return self.build_response(request, answer)


def main():
    """Validate a crate as a Provenance Run Crate."""
    requests.Session.get_adapter = lambda session, url: StandIn()
    settings = services.ValidationSettings(
        rocrate_uri=sys.argv[1],
        profile_identifier="provenance-run-crate",
        requirement_severity=models.Severity.RECOMMENDED,
    )
    result = services.validate(settings)
    for issue in result.get_issues():
        entity = getattr(issue, "violatingEntity", None)
        print(issue.severity.name, issue.check.identifier, entity, issue.message)
    print("passed" if result.passed() else "recommended")


main()
